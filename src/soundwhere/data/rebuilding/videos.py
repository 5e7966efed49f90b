"""A video of wide-duet from a longer one: cut where the fingerprint of its sound says."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from soundwhere.constants import SAMPLE_RATE_HZ
from soundwhere.data.rebuilding.lists import print_of, whole_of
from soundwhere.data.rebuilding.photo_prints import SAME_PHOTO, photo_distance, photo_print
from soundwhere.data.rebuilding.photos import another_version
from soundwhere.data.rebuilding.sound_prints import SAME_SOUND, find, sound_distance
from soundwhere.data.rebuilding.sources import VIDEOS
from soundwhere.errors import ConfigError, SoundwhereError
from soundwhere.files import is_file
from soundwhere.media.audio import read_audio
from soundwhere.media.image import resize
from soundwhere.media.video import read_frames, stream_frames
from soundwhere.media.writer import VideoWriter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from soundwhere.data.table import Row

SUFFIXES: Final = (".mp4", ".webm", ".mkv", ".mov", ".avi")
_CRF = 20


class VideoFolder:
    """Videos in a folder, by YouTube id (`ID.mp4`, `ID_000030.mp4`) or as their pages have them (`repository/path`).

    Raises:
        ConfigError: None of the videos is there.
    """

    def __init__(self, folder: Path, rows: Sequence[Row]) -> None:
        files = [
            Path(place, name)
            for place, _, names in os.walk(folder)
            for name in names
            if name.lower().endswith(SUFFIXES)
        ]
        self._found = {row["video"]: _match(row, sorted(files)) for row in rows}
        if rows and not any(self._found.values()):
            raise ConfigError(
                f"{VIDEOS.option} {folder}: none of {len(rows)} videos is there, by YouTube id "
                f"(such as {next((row['youtube_id'] for row in rows if row['youtube_id']), '-')}.mp4) or page.",
                f"Get {VIDEOS.where}.",
            )

    def find(self, row: Row) -> Path | None:
        """The file of a video, if it is there."""
        return self._found[row["video"]]


def is_made(row: Row, out: Path) -> bool:
    """Whether a video is there, and sounds as its fingerprint says."""
    path = row.inside(row["video"], out)
    if not is_file(path):
        return False
    try:
        return sound_distance(read_audio(path), print_of(row)) <= SAME_SOUND
    except SoundwhereError:
        return False


def make_video(row: Row, path: Path, out: Path) -> float:
    """Write a video: a few seconds, small, with the listed number of frames a second.

    Returns:
        The distance of its sound from the fingerprint, in dB.

    Raises:
        SoundwhereError: It cannot be read, or is not the video that was used.
    """
    recording, seconds = read_audio(path), float(row["seconds"])
    start, distance = find(recording, print_of(row))
    if distance > SAME_SOUND:
        raise another_version(path, VIDEOS, f"no part of its sound is as listed ({distance:.1f} dB apart)")
    start_s = start / SAMPLE_RATE_HZ
    [middle] = read_frames(path, [start_s + seconds / 2])
    differs = photo_distance(photo_print(middle.image), print_of(row, "frame_print"))
    if differs > 2 * SAME_PHOTO:  # frames move: a tenth of a second is seen
        raise another_version(path, VIDEOS, f"its picture is another ({differs:.0%} of the fingerprint differs)")
    width, height, fps = (whole_of(row, column) for column in ("width", "height", "fps"))
    target = row.inside(row["video"], out)
    sound = recording[start : start + round(seconds * SAMPLE_RATE_HZ)]
    with VideoWriter(target, width, height, fps=fps, waveform=sound, crf=_CRF) as writer:
        for frame in stream_frames(path, fps, start_s, start_s + seconds):
            writer.write(resize(frame.image, (height, width)), frame.time_s - start_s)
    return distance


def _match(row: Row, files: Sequence[Path]) -> Path | None:
    identity = row["youtube_id"]
    _, _, page = row["source"].partition("/")  # without the owner: a clone is named after the repository
    page = page.replace(" ", "/", 1)
    for path in files:
        if identity and (path.stem == identity or path.stem.startswith(f"{identity}_")):
            return path
        if path.as_posix().endswith(f"/{page}"):
            return path
    return None
