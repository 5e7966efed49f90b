"""Memory does not grow with the length of a clip: only the maps of the analysed frames are kept."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np

from soundwhere.media.writer import VideoWriter

if TYPE_CHECKING:
    from pathlib import Path

SCRIPT = """
import resource, sys
from soundwhere.inference.localiser import Localiser

localiser = Localiser("scav-tiny", "cpu", fps=0.5, hop_s=3.0)
for seconds in (60, 60, 600):  # the first time, threads take memory that they keep
    result = localiser.localise(sys.argv[1], end_s=seconds)
    print(len(result.times), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)  # kilobytes
"""


def write_clip(path: Path, seconds: int) -> str:
    """A small picture that changes every second, with noise."""
    rng = np.random.default_rng(0)
    noise = 0.1 * rng.standard_normal(22_050).astype(np.float32)
    with VideoWriter(path, 64, 64, fps=1, waveform=np.resize(noise, seconds * 22_050)) as video:
        for _ in range(seconds):
            video.write(rng.integers(0, 256, (64, 64, 3), np.uint8))
    return str(path)


def test_ten_minutes_need_as_much_memory_as_one(tmp_path: Path) -> None:
    command = [sys.executable, "-c", SCRIPT, write_clip(tmp_path / "clip.mp4", 600)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    _, (frames, before), (more, after) = (map(int, line.split()) for line in done.stdout.splitlines())
    assert (frames, more) == (30, 300)
    # the sound of nine minutes would be 48 MB as floats, the pictures as the network sees them 53 MB
    assert after - before < 30_000
