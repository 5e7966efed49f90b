"""What a localisation depends on besides the model and the clip."""

from __future__ import annotations

from dataclasses import dataclass

from soundwhere import constants
from soundwhere.errors import ConfigError

MOST_SOURCES = 7  # as many as there are colours to tell them apart by


@dataclass(frozen=True)
class Settings:
    """How a clip is analysed."""

    fps: float = 5.0
    """Frames analysed per second."""
    hop_s: float = 0.5
    """Distance between windows of sound; the frames nearest to a window's middle share it."""
    squash: bool = False
    """Squash every frame to a square, as the paper does, instead of keeping its shape."""
    smooth: bool = True
    """Average the maps lightly over time."""
    sources: int | None = None
    """How many sources are looked for; None for as many as the model tells apart, less those that never sound if it
    counts."""
    least_confidence: float = constants.NEGATIVE_THRESHOLD
    """A source sounds if its confidence reaches this: a peak that training would call background is none."""
    least_level_db: float = -60.0
    """... and if the sound around the frame reaches this level, in decibels below full scale."""

    def __post_init__(self) -> None:
        if not 0 < self.fps <= 240:
            raise ConfigError(
                f"{self.fps:g} is not a valid number of frames per second.", "Give --fps above 0, 240 at most."
            )
        if not 0 < self.hop_s <= constants.CLIP_S:
            raise ConfigError(
                f"{self.hop_s:g} s is not a valid hop between windows of sound.",
                f"Give --hop-s above 0 and at most {constants.CLIP_S:g}, the length of a window.",
            )
        if self.sources is not None and not 1 <= self.sources <= MOST_SOURCES:
            raise ConfigError(f"{self.sources} sources are not possible.", f"Give --sources from 1 to {MOST_SOURCES}.")
