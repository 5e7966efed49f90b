from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from soundwhere.inference.chunks import chunks
from soundwhere.inference.footage import Footage, level_db
from soundwhere.media.audio import read_audio, window
from soundwhere.media.image import resize
from soundwhere.media.video import read_frames

if TYPE_CHECKING:
    from pathlib import Path


def test_every_frame_and_every_window_once(squares_path: Path) -> None:
    footage = Footage.open(squares_path, start_s=1.0)
    found = list(chunks(footage, footage.undeveloped(10), hop_s=0.5, batch=8, size=(128, 256)))
    assert [len(chunk.times_s) for chunk in found] == [1, 2, 4, 8, 8, 8, 8, 1]  # the first answer comes soon
    times = [time_s for chunk in found for time_s in chunk.times_s]
    np.testing.assert_allclose(times, 1 + np.arange(40) / 10)
    fresh = [number for chunk in found for number in chunk.sounds]
    assert fresh == list(range(2, 11))
    sound = read_audio(squares_path)
    for chunk in found:
        for number, heard in chunk.sounds.items():
            np.testing.assert_allclose(heard, window(sound, number / 2), atol=1e-6)
            assert chunk.levels_db[number] == level_db(heard)
        for time_s, number in zip(chunk.times_s, chunk.windows, strict=True):
            assert abs(number / 2 - time_s) <= 0.25 + 1e-9
        for time_s, row in zip(chunk.times_s, chunk.shown, strict=True):
            picture = resize(read_frames(squares_path, [time_s])[0].image, (128, 256))
            assert np.abs(chunk.pictures[row].astype(int) - picture).max() <= 1
