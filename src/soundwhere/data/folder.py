"""A folder of videos, or of pictures and sounds with the same name, as clips."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final

from soundwhere.data.clips import Clips, StillClip, VideoClip, file_key
from soundwhere.errors import DataError, MediaError
from soundwhere.media.container import VIDEO_SUFFIXES as VIDEO_SUFFIXES
from soundwhere.media.container import left_out
from soundwhere.media.image import IMAGE_SUFFIXES
from soundwhere.media.video import probe, require_streams

if TYPE_CHECKING:
    from soundwhere.data.clips import StoredClip

SOUND_SUFFIXES: Final = frozenset({".aac", ".flac", ".m4a", ".mp3", ".ogg", ".opus", ".wav"})

STRETCH_S: Final = 10.0  # the length of VGGSound's clips
_LISTED = 5  # problems that are told in full


class FolderClips(Clips):
    """Every video below a folder, and every picture beside a sound of the same name.

    A video gives the frame in its middle and the 3 s of sound around it (in training, any 3 s that include the frame);
    a long one is first cut into equal stretches of about 10 s. A picture goes with any 3 s of its recording. Files are
    taken in the order of their names; hidden ones, results of ours and other kinds of file are not looked at.

    Args:
        root: The folder.

    Attributes:
        problems: Files that cannot be used, with the reason.

    Raises:
        DataError: It is not a folder, or holds nothing that can be used.
    """

    def __init__(self, root: Path | str) -> None:
        root = Path(root)
        if not root.is_dir():
            raise DataError(f"{root} is not a folder.", "Give a folder of videos with --root.")
        self.problems: list[tuple[Path, str]] = []
        clips: list[StoredClip] = []
        sounds = {path.with_suffix(""): path for path in _files(root, SOUND_SUFFIXES)}
        for path in _files(root, VIDEO_SUFFIXES | IMAGE_SUFFIXES):
            try:
                clips += [_still(path, sounds, root)] if path.suffix.lower() in IMAGE_SUFFIXES else _cut(path, root)
            except MediaError as error:
                self.problems.append((path, error.message))
        self.problems += [(path, f"{path} has no picture of the same name beside it.") for path in sounds.values()]
        if not clips:
            raise DataError(
                f"{root} holds nothing to train on: {self.describe_problems() or 'no video, no picture, no sound.'}",
                "Give a folder of videos with sound, or of pictures beside sounds of the same name.",
            )
        super().__init__(clips)

    def describe_problems(self) -> str:
        """The problems in words, the first five in full; empty if there are none."""
        if not self.problems:
            return ""
        lines = [f"{len(self.problems)} files cannot be used.", *(reason for _, reason in self.problems[:_LISTED])]
        if len(self.problems) > _LISTED:
            lines.append(f"and {len(self.problems) - _LISTED} more")
        return "\n  ".join(lines)


def _files(root: Path, suffixes: frozenset[str]) -> list[Path]:
    """Files below a folder, sorted, whose name ends in one of the suffixes."""
    paths = (path for path in root.rglob("*") if path.suffix.lower() in suffixes and path.is_file())
    return sorted(path for path in paths if not any(map(left_out, path.relative_to(root).parts)))


def _cut(path: Path, root: Path) -> list[VideoClip]:
    """Cut a video into equal stretches of about 10 s; a shorter one stays whole."""
    key = file_key(path, root)
    duration_s = _check_video(path, key)
    count = max(1, round(duration_s / STRETCH_S))
    edges = [duration_s * i / count for i in range(count + 1)]
    return [VideoClip(path, start_s, end_s, key) for start_s, end_s in pairwise(edges)]


def _still(path: Path, sounds: dict[Path, Path], root: Path) -> StillClip:
    """The clip of a picture; its sound is taken out of `sounds`."""
    sound = sounds.pop(path.with_suffix(""), None)
    if sound is None:
        raise MediaError(f"{path} has no sound file of the same name beside it.")
    clip = StillClip.of(path, sound, root)
    _check_still(clip)
    return clip


# A run asks for its clips more than once, and opening many files takes long. Keys change with the file.
@cache
def _check_video(path: Path, key: str) -> float:
    """The length of a video, which must have picture and sound."""
    info = probe(path)
    require_streams(info)
    return info.duration_s


@cache
def _check_still(clip: StillClip) -> None:
    """Read the picture, and make sure that the other file holds sound."""
    probe(clip.photo)
    if not probe(clip.audio).has_audio:
        raise MediaError(f"{clip.audio} holds no sound.")
