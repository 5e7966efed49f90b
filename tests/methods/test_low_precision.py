"""Every method trains in bfloat16, as on most GPUs, and keeps its weights in full."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

import pytest
import torch
from safetensors.torch import save_file

from soundwhere.config import Config, DataConfig, TrainConfig
from soundwhere.methods.catalogue import METHODS, find_method
from soundwhere.methods.files import load_model
from soundwhere.models.encoders import build_audio, build_visual
from soundwhere.training.run import train

if TYPE_CHECKING:
    from pathlib import Path

SMALL: dict[str, int] = {"frame_px": 64, "dimension": 16, "others": 4, "rounds": 2, "clusters": 3, "reciprocal": 2}
SMALL |= dict.fromkeys(("batch_size", "batch_size_two"), 4)
SMALL |= dict.fromkeys(("steps_one", "steps_two", "contrastive_steps", "steps_round", "steps_class"), 1) | {"steps": 2}


def small(name: str, family: str, clips: Path, folder: Path) -> Any:
    """A published configuration with small frames, encoders and batches, for two steps."""
    published: Any = find_method(family).named[name]
    settings: dict[str, Any] = {**SMALL, "captions": clips / "captions.npz"}
    for sense, build in (("visual", build_visual), ("audio", build_audio)):
        start = f"{sense}_weights"
        if family == "scav-wide":
            settings |= {start: "none"}
            continue
        save_file(build("tiny").state_dict(), folder / f"{sense}.safetensors")
        settings |= {sense: "tiny", start: str(folder / f"{sense}.safetensors")}
        if getattr(published, start, "none") == "none":
            del settings[start]
    known = {field.name for field in fields(published)}
    return replace(published, **{name: value for name, value in settings.items() if name in known})


@pytest.mark.parametrize(
    ("name", "family"), [(name, family) for family in METHODS for name in find_method(family).named]
)
def test_it_trains_in_bfloat16(name: str, family: str, clips: Path, tmp_path: Path) -> None:
    data = DataConfig(source="real-duet", root=clips, cache=tmp_path / "cache")
    settings = TrainConfig(device="cpu", precision="bf16")
    train(Config(small(name, family, clips, tmp_path), data, settings), tmp_path / "run")
    tensors = load_model(tmp_path / "run").state_dict().values()
    assert all(tensor.isfinite().all() and tensor.dtype != torch.bfloat16 for tensor in tensors)
