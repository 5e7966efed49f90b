"""How clips are prepared: everything besides the list that decides a shard's bytes."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any

from soundwhere.config import require
from soundwhere.constants import SAMPLE_RATE_HZ
from soundwhere.media.encoded import OPUS_RATES_HZ, SoundFormat


@dataclass(frozen=True)
class Recipe:
    """How clips are prepared."""

    frames: int = 3
    """Frames of a clip, in the middles of as many equal parts of it; the first is that nearest to its middle."""
    short_px: int = 256
    """Short side to which frames are reduced; smaller ones stay as they are."""
    window_s: float = 10.0
    """Length of the stretches that long videos without times are cut into."""
    rate_hz: int = SAMPLE_RATE_HZ
    """Samples per second of the sound."""
    sound: SoundFormat = "flac"
    """flac loses nothing; opus is a third as large."""
    quality: int = 90
    """Of the JPEG frames, 1 to 95."""
    features: str = ""
    """Also store what the frozen visual encoder of this model sees in every frame: its name, file or run."""

    def __post_init__(self) -> None:
        require(1 <= self.frames <= 1000, "frames", self.frames, "between 1 and 1000")
        require(self.short_px >= 16, "short_px", self.short_px, "16 or more")
        require(1 <= self.window_s <= 600, "window_s", self.window_s, "between 1 and 600")
        require(4_000 <= self.rate_hz <= 192_000, "rate_hz", self.rate_hz, "between 4000 and 192000")
        require(1 <= self.quality <= 95, "quality", self.quality, "between 1 and 95")
        if self.sound == "opus":
            rates = ", ".join(map(str, OPUS_RATES_HZ))
            require(self.rate_hz in OPUS_RATES_HZ, "rate_hz", self.rate_hz, f"one of {rates} for opus")

    def to_dict(self) -> dict[str, Any]:
        """As JSON keeps it."""
        return asdict(self)

    def differences(self, other: dict[str, Any]) -> list[str]:
        """The options in which a stored recipe differs, with both values."""
        return [
            f"--{field.name.replace('_', '-')} {other.get(field.name)} (now {getattr(self, field.name)})"
            for field in fields(self)
            if other.get(field.name) != getattr(self, field.name)
        ]


def versions() -> dict[str, str]:
    """The libraries that bytes depend on."""
    from importlib.metadata import version

    import av

    libraries = {name: ".".join(map(str, numbers)) for name, numbers in sorted(av.library_versions.items())}
    return {**{name: version(name) for name in ("av", "numpy", "pillow")}, **libraries}
