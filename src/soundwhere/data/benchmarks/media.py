"""Finding the picture and the sound of a clip in a folder of media.

    DIR/<id>.mp4                       a video: its middle frame, the middle 3 s of its sound
    DIR/frames/<id>.jpg  (or .png)     a picture
    DIR/audio/<id>.wav   (.ogg, ...)   a sound: its middle 3 s, repeated if it is shorter

A frame of a longer recording is also found within that recording, at its time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from soundwhere.constants import CLIP_S, CLIP_SAMPLES, SAMPLE_RATE_HZ
from soundwhere.data.folder import SOUND_SUFFIXES, VIDEO_SUFFIXES
from soundwhere.errors import DataError, MediaError
from soundwhere.media.audio import centre_clip, read_audio
from soundwhere.media.image import IMAGE_SUFFIXES, read_image
from soundwhere.media.video import probe, read_frames

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from soundwhere.types import Image, Waveform


@dataclass(frozen=True)
class ClipName:
    """How a clip is called, and where else to look for it.

    Attributes:
        name: The file's name without its ending.
        aliases: Other names of the same clip; they may contain `/`.
        recordings: Names of longer recordings that hold the clip, in the order in which they are tried.
        time_s: The clip's moment in those.
    """

    name: str
    aliases: tuple[str, ...] = ()
    recordings: tuple[str, ...] = ()
    time_s: float = 0.0


@dataclass(frozen=True)
class Found:
    """A picture or a sound: a file, and the moment in it if not the middle."""

    path: Path
    time_s: float | None = None

    def picture(self) -> Image:
        """The picture, RGB, shape (H, W, 3), uint8."""
        if self.path.suffix.lower() in IMAGE_SUFFIXES:
            return read_image(self.path)
        try:
            time_s = probe(self.path).duration_s / 2 if self.time_s is None else self.time_s
            return read_frames(self.path, [time_s])[0].image
        except MediaError as error:
            raise _unusable(error) from error

    def sound(self) -> Waveform:
        """3 s of sound, shape (66150,), float32, as recorded.

        The middle of the file, or the 3 s around `time_s`, moved as far as needed to lie within the recording. What is
        shorter than 3 s is repeated.
        """
        try:
            if self.time_s is None:
                return centre_clip(read_audio(self.path))
            start_s = max(0.0, self.time_s - CLIP_S / 2)
            sound = read_audio(self.path, start_s, start_s + CLIP_S)
            if len(sound) < CLIP_SAMPLES and start_s > 0:
                start_s = max(0.0, start_s - (CLIP_SAMPLES - len(sound)) / SAMPLE_RATE_HZ)
                sound = read_audio(self.path, start_s, start_s + CLIP_S)
            return centre_clip(sound)
        except MediaError as error:
            raise _unusable(error) from error


class MediaFolder:
    """The media in a folder, indexed once. Empty files, as broken downloads leave them, do not count.

    Raises:
        DataError: It is not a folder.
    """

    def __init__(self, root: Path) -> None:
        if not root.is_dir():
            raise DataError(f"{root} is not a folder.", "Give the folder with the benchmark's media with --data.")
        self.root = root
        self._videos = _index(root, root.iterdir(), VIDEO_SUFFIXES)
        self._frames = _index(root / "frames", (root / "frames").rglob("*"), IMAGE_SUFFIXES)
        self._sounds = _index(root / "audio", (root / "audio").rglob("*"), SOUND_SUFFIXES)

    def picture(self, clip: ClipName) -> Found | None:
        """Where the picture of a clip is, if it is there."""
        return _find(clip, (self._frames, self._videos), (self._videos,))

    def sound(self, clip: ClipName) -> Found | None:
        """Where the sound of a clip is, if it is there."""
        return _find(clip, (self._sounds, self._videos), (self._sounds, self._videos))

    def has(self, clip: ClipName) -> bool:
        """Whether both picture and sound of a clip are there."""
        return self.picture(clip) is not None and self.sound(clip) is not None


def _find(clip: ClipName, own: Sequence[dict[str, Path]], longer: Sequence[dict[str, Path]]) -> Found | None:
    for name in (clip.name, *clip.aliases):
        for index in own:
            if name in index:
                return Found(index[name])
    for name in clip.recordings:
        for index in longer:
            if name in index:
                return Found(index[name], clip.time_s)
    return None


def _index(folder: Path, paths: Iterable[Path], suffixes: frozenset[str]) -> dict[str, Path]:
    """Files of certain kinds by their name below the folder without its ending."""
    wanted = (path for path in sorted(paths) if path.suffix.lower() in suffixes)
    found = (path for path in wanted if path.is_file() and path.stat().st_size)
    return {path.relative_to(folder).with_suffix("").as_posix(): path for path in found}


def _unusable(error: MediaError) -> MediaError:
    remedy = "Get that file again; or move it away, so that it counts as missing, and use --allow-missing."
    return MediaError(error.message, remedy)
