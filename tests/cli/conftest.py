from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import av
import numpy as np
import pytest
import torch
from tests.shortcuts import draw_few

from soundwhere.media.audio import write_wav
from soundwhere.methods.files import write_model
from soundwhere.methods.scav.config import NAMED
from soundwhere.methods.scav.model import SCAV

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture(scope="session")
def model_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model file as it is before training."""
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("model") / "tiny.safetensors"
    write_model(path, SCAV(NAMED["scav-tiny"]), facts={"licence": "none"})
    return path


@pytest.fixture
def quick_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    """Intervals are found by few draws."""
    draw_few(monkeypatch)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, in which commands run."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def give(folder: Path, clip_path: Path, model_path: Path) -> Callable[[str], Path]:
    """Makes a file of a kind: a good clip, or one of the ways in which a file can be bad."""

    def make(kind: str) -> Path:
        path = folder / f"{kind}.mp4"
        if kind == "truncated":
            path.write_bytes(clip_path.read_bytes()[:3000])
        elif kind == "empty":
            path.touch()
        elif kind == "text":
            path.write_text("once upon a time there was a video\n" * 50)
        elif kind == "mute":
            with av.open(path, "w") as container:
                video = container.add_stream("libx264", rate=5, width=32, height=32, pix_fmt="yuv420p")
                container.mux(video.encode(av.VideoFrame.from_ndarray(np.zeros((32, 32, 3), np.uint8))))
                container.mux(video.encode(None))
        elif kind == "sound":
            path = folder / "sound.wav"
            write_wav(path, 0.1 * np.ones(22_050, np.float32))
        elif kind == "folder":
            path = folder / "folder"
            path.mkdir()
        elif kind != "missing":
            shutil.copy(clip_path, path)
        return path

    return make
