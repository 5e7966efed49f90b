"""Single-source clips: a picture and the sound that came with it. Labels only where they are asked for."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final, Protocol, runtime_checkable

import numpy as np

from soundwhere.constants import CLIP_S, CLIP_SAMPLES, SAMPLE_RATE_HZ
from soundwhere.data.memory import MEMORY
from soundwhere.errors import MediaError
from soundwhere.media.audio import centre_clip, read_audio
from soundwhere.media.image import read_image
from soundwhere.media.video import read_frames

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from soundwhere.types import Image, Waveform

_BLOCKS: Final = 64
_BLOCK_BYTES: Final = 1 << 20


class ClipSource(Protocol):
    """A numbered set of single-source clips, or of native mixtures."""

    def __len__(self) -> int:
        """How many clips there are."""

    def key(self, index: int) -> str:
        """Names the content of the picture, also in another run: equal keys, equal pictures."""

    def image(self, index: int) -> Image:
        """The picture, shape (H, W, 3), of any size."""

    def sound(self, index: int, rng: np.random.Generator | None = None) -> Waveform:
        """3 s of the sound, shape (66150,): a random part with `rng`, the middle without."""


@runtime_checkable
class KnowsKinds(Protocol):
    """A `ClipSource` that can tell classes, if it is asked to."""

    @property
    def kinds(self) -> Sequence[str] | None:
        """The class of every clip; None if it was not read or is not known."""


@runtime_checkable
class SeveralFrames(Protocol):
    """A `ClipSource` of clips with several frames: number `index + frame * len(clips)` asks for any of them."""

    @property
    def frames(self) -> int:
        """How many frames may be asked for."""

    def features(self, number: int) -> NDArray[np.float16]:
        """What a frozen encoder sees in a frame (C, h, w), where that is stored."""


class StoredClip(Protocol):
    """A clip on disk."""

    @property
    def key(self) -> str:
        """Names the content of the picture."""

    @property
    def recording_key(self) -> str:
        """Names the content of the recording."""

    def image(self) -> Image:
        """Read the picture."""

    def recording(self) -> Waveform:
        """Read the sound, any 3 s of which belong to the picture."""


@dataclass(frozen=True)
class StillClip:
    """A photo and a recording. `key` and `recording_key` are their `file_key`s."""

    photo: Path
    audio: Path
    key: str
    recording_key: str

    @classmethod
    def of(cls, photo: Path, audio: Path, root: Path) -> StillClip:
        """The clip of two files below `root`."""
        return cls(photo, audio, file_key(photo, root), file_key(audio, root))

    def image(self) -> Image:
        """Read the photo."""
        return read_image(self.photo)

    def recording(self) -> Waveform:
        """Read the whole recording."""
        return read_audio(self.audio)


@dataclass(frozen=True)
class VideoClip:
    """The frame in the middle of a stretch of video, and the sound around it."""

    path: Path
    start_s: float
    end_s: float
    file_key: str

    @property
    def key(self) -> str:
        """Names the frame: the file and the time."""
        return f"{self.file_key}@{self.start_s:.3f}-{self.end_s:.3f}"

    recording_key = key

    def image(self) -> Image:
        """Read the frame in the middle."""
        return read_frames(self.path, [(self.start_s + self.end_s) / 2])[0].image

    def recording(self) -> Waveform:
        """Read up to 3 s before and after the frame; silence where the sound track has ended."""
        middle_s, reach_s = (self.start_s + self.end_s) / 2, min(CLIP_S, (self.end_s - self.start_s) / 2)
        sound = read_audio(self.path, middle_s - reach_s, middle_s + reach_s)
        missing = round(2 * reach_s * SAMPLE_RATE_HZ) - len(sound)
        return np.pad(sound, (0, max(0, missing)))


class Clips:
    """A `ClipSource` of clips on disk; recordings stay in memory in half precision (66 dB above its rounding noise)."""

    def __init__(self, clips: Sequence[StoredClip], kinds: Sequence[str] | None = None) -> None:
        self._clips = clips
        self.kinds = kinds

    def __len__(self) -> int:
        return len(self._clips)

    def __getitem__(self, index: int) -> StoredClip:
        """The clip on disk, which reads its files whenever it is asked."""
        return self._clips[index]

    def key(self, index: int) -> str:
        """See `ClipSource`."""
        return self._clips[index].key

    def image(self, index: int) -> Image:
        """See `ClipSource`."""
        return self._clips[index].image()

    def sound(self, index: int, rng: np.random.Generator | None = None) -> Waveform:
        """See `ClipSource`."""
        clip = self._clips[index]
        recording = MEMORY.get(("recording", clip.recording_key), lambda: clip.recording().astype(np.float16))
        if rng is None or len(recording) <= CLIP_SAMPLES:
            return centre_clip(recording.astype(np.float32))
        start = rng.integers(len(recording) - CLIP_SAMPLES + 1)
        return recording[start : start + CLIP_SAMPLES].astype(np.float32)


class Together:
    """Two `ClipSource`s, one after the other."""

    def __init__(self, first: ClipSource, second: ClipSource) -> None:
        self._first, self._second = first, second

    def __len__(self) -> int:
        return len(self._first) + len(self._second)

    def _find(self, index: int) -> tuple[ClipSource, int]:
        count = len(self._first)
        return (self._first, index) if index < count else (self._second, index - count)

    def key(self, index: int) -> str:
        """See `ClipSource`."""
        clips, own = self._find(index)
        return clips.key(own)

    def image(self, index: int) -> Image:
        """See `ClipSource`."""
        clips, own = self._find(index)
        return clips.image(own)

    def sound(self, index: int, rng: np.random.Generator | None = None) -> Waveform:
        """See `ClipSource`."""
        clips, own = self._find(index)
        return clips.sound(own, rng)


def file_key(path: Path, root: Path) -> str:
    """Name a file and its content: its place below `root`, by which keys are sorted, and a hash of its bytes.

    Raises:
        MediaError: It cannot be read.
    """
    try:
        status = path.stat()
        # the last of these changes with every write, whatever time a file is given afterwards
        stamp = (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        return f"{path.relative_to(root).as_posix()}|{_content(path, stamp)}"
    except OSError as error:
        raise MediaError(f"{path} cannot be read: {error.strerror}.", "Check the file and its permissions.") from error


@cache
def _content(path: Path, stamp: tuple[int, ...]) -> str:
    """A hash of a file's size and bytes, of a large file's 64 blocks of 1 MB that lie evenly from start to end."""
    size = stamp[1]
    digest = hashlib.sha256(f"{size}|".encode())
    with path.open("rb") as file:
        if size <= _BLOCKS * _BLOCK_BYTES:
            digest.update(file.read())
        else:
            for number in range(_BLOCKS):
                file.seek(number * (size - _BLOCK_BYTES) // (_BLOCKS - 1))
                digest.update(file.read(_BLOCK_BYTES))
    return digest.hexdigest()[:32]
