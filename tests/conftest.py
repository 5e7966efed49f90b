"""Fixtures shared by every room."""

from __future__ import annotations

import os
import re
import shutil
import sys
from fractions import Fraction
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import av
import numpy as np
import pytest
import torch
from hypothesis import settings

if TYPE_CHECKING:
    from collections.abc import Callable


settings.register_profile("ci", derandomize=True, deadline=None)
settings.load_profile("ci")
torch.set_num_threads(1)  # small tensors: a second thread costs more than it gives, most of all on a busy machine


@pytest.fixture(scope="session")
def shared() -> Path:
    """Real clips, annotations and weights that are never part of the repository."""
    folder = Path(__file__).parents[2] / "shared"
    if not folder.is_dir():
        pytest.skip(f"needs the real clips and weights in {folder.name}/ beside the repository")
    return folder


@pytest.fixture(scope="session")
def documented() -> Callable[[str], ModuleType]:
    """The complete examples of docs/extending.md as modules: `documented("toy.py")`."""
    text = (Path(__file__).parents[1] / "docs" / "extending.md").read_text(encoding="utf-8")
    blocks = dict(re.findall(r'```python title="([\w.]+)"\n(.*?)```', text, re.DOTALL))

    def load(name: str) -> ModuleType:
        module = ModuleType(name.removesuffix(".py"))
        sys.modules[module.__name__] = module  # where dataclasses look their module up
        exec(compile(blocks[name], name, "exec"), module.__dict__)
        return module

    return load


@pytest.fixture(scope="session")
def chromium() -> str:
    """A Chromium to drive; without one browser tests are skipped, or fail where CI asks for them."""
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        reason = "needs Chromium; install it with your system's package manager"
        if os.environ.get("SOUNDWHERE_REQUIRE_BROWSER"):
            pytest.fail(reason)
        pytest.skip(reason)
    return found


@pytest.fixture(scope="session")
def clip_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """2 s of a white square moving right over grey, 96 x 64 at 10 fps, with a 440 Hz tone: H.264 and AAC in mp4."""
    path = tmp_path_factory.mktemp("clip") / "clip.mp4"
    tone = (0.3 * np.sin(2 * np.pi * 440 * np.arange(2 * 22_050) / 22_050)).astype(np.float32)
    with av.open(path, "w") as container:
        video = container.add_stream("libx264", rate=10, width=96, height=64, pix_fmt="yuv420p")
        audio = container.add_stream("aac", rate=22_050, layout="mono")
        for index in range(20):
            picture = np.full((64, 96, 3), 80, np.uint8)
            picture[24:40, 4 * index : 4 * index + 16] = 255
            frame = av.VideoFrame.from_ndarray(picture, format="rgb24")
            frame.pts, frame.time_base = index, Fraction(1, 10)
            container.mux(video.encode(frame))
        sound = av.AudioFrame.from_ndarray(tone[None], format="fltp", layout="mono")
        sound.sample_rate, sound.pts, sound.time_base = 22_050, 0, Fraction(1, 22_050)
        container.mux(audio.encode(sound))
        container.mux(video.encode(None))
        container.mux(audio.encode(None))
    return path


import sys
from fractions import Fraction
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING
