"""The clip without heat, as a file that every browser plays: itself where possible, a new mp4 otherwise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from soundwhere.media import container as media
from soundwhere.media.image import resize
from soundwhere.media.writer import VideoWriter

if TYPE_CHECKING:
    from pathlib import Path

    from soundwhere.inference.footage import Footage

# container: codecs of picture and sound in it that browsers play
_PLAYED: Final = {
    "mp4": (frozenset({"h264", "av1", "vp9"}), frozenset({"aac", "mp3", "opus", "flac"})),
    "webm": (frozenset({"vp8", "vp9", "av1"}), frozenset({"opus", "vorbis"})),
}
_SUFFIXES: Final = {".mp4": "mp4", ".m4v": "mp4", ".mov": "mp4", ".webm": "webm"}
_COLOURS: Final = frozenset({"yuv420p", "yuvj420p"})  # decoders for 10 bits or fuller colours are rare
_LATEST_START_S: Final = 0.05  # a browser shows time as the file states it, we count from where the file begins
_LONGEST_PX: Final = 1280  # of a new file's sides


@dataclass(frozen=True)
class BrowserVideo:
    """A video that every browser plays, and the time of the clip at which it begins, in seconds."""

    path: Path
    start_s: float


def browser_video(footage: Footage, folder: Path) -> BrowserVideo:
    """The clip itself if browsers play it, or else `plain.mp4`, written into a folder."""
    if (path := playable(footage)) is not None:
        return BrowserVideo(path, 0.0)
    write_plain(footage, folder / "plain.mp4")
    return BrowserVideo(folder / "plain.mp4", footage.start_s)


def playable(footage: Footage) -> Path | None:
    """The clip itself if a browser plays the whole of what was localised from it, with the same sound and clock."""
    suffix = _SUFFIXES.get(footage.path.suffix.lower())
    whole = footage.start_s == 0 and footage.end_s >= footage.info.duration_s - 1e-3
    if suffix is None or not whole or footage.sound != footage.path:
        return None
    pictures, sounds = _PLAYED[suffix]
    with media.open_media(footage.path) as container:
        picture, sound = media.picture_stream(container), media.sound_stream(container)
        if picture is None or sound is None or abs((container.start_time or 0) / 1e6) > _LATEST_START_S:
            return None
        codecs = picture.codec_context.codec.canonical_name, sound.codec_context.codec.canonical_name
        square = media.displayed_size(picture) == (picture.codec_context.width, picture.codec_context.height)
        plays = codecs[0] in pictures and codecs[1] in sounds and picture.codec_context.pix_fmt in _COLOURS and square
    return footage.path if plays else None


def write_plain(footage: Footage, path: Path) -> None:
    """Write what was localised as an mp4 with its sound, at most 1280 pixels wide or high; it begins at time 0."""
    height, width = footage.size
    shrink = min(1.0, _LONGEST_PX / max(height, width))
    size = max(1, round(height * shrink)), max(1, round(width * shrink))
    with VideoWriter(
        path, size[1], size[0], footage.own_fps, footage.sound, start_s=footage.start_s, end_s=footage.end_s, crf=23
    ) as video:
        for frame in footage.frames(footage.own_fps):
            video.write(resize(frame.image, size) if shrink < 1 else frame.image)
