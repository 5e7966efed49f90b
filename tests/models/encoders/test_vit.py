"""An encoder unlike the others, added from outside: a Vision Transformer with patches of 14 and signed features."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import torch

from soundwhere.config import Config, DataConfig, TrainConfig
from soundwhere.errors import ConfigError
from soundwhere.inference.localiser import Localiser
from soundwhere.methods.files import build, load_model
from soundwhere.methods.scav.config import SCAVConfig
from soundwhere.models.encoders import VISUAL
from soundwhere.training.run import train

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from types import ModuleType

    from torch import nn


@pytest.fixture(autouse=True)
def encoder(documented: Callable[[str], ModuleType]) -> Iterator[type[nn.Module]]:
    """The encoder of docs/extending.md, in the catalogue as long as a test runs."""
    yield documented("tiny_vit.py").TinyViT
    del VISUAL["tiny-vit"]


CONFIG = SCAVConfig(
    name="scav-vit",
    visual="tiny-vit",
    audio="tiny",
    visual_weights="none",
    freeze_visual=False,
    frame_px=56,
    dimension=16,
    decoupler_layers=1,
    decoupler_heads=2,
    steps_one=2,
    steps_two=2,
    batch_size=4,
)


@torch.no_grad()
def test_similarities_to_signed_features_have_a_sign() -> None:
    torch.manual_seed(0)
    model = build(CONFIG).eval()
    seen, heard = model.see(torch.randn(4, 3, 56, 84)), model.hear(0.1 * torch.randn(4, 66_150))
    assert model.stride_px == 14
    assert seen.shape == (4, 32, 4, 6)
    assert seen.min() < 0
    assert heard.min() < 0  # no ReLU ends the head: it would keep the sound out of half of the space
    found = model.localise(seen, heard)
    assert found.similarity.shape == (4, 2, 4, 6)
    assert found.similarity.isfinite().all()


def test_frames_that_it_cannot_cut_are_refused() -> None:
    with pytest.raises(ConfigError, match="frame_px is 64") as caught:
        build(replace(CONFIG, frame_px=64))
    assert "14" in caught.value.remedy


def test_both_stages_train_and_a_clip_is_localised(tmp_path: Path, clip_path: Path, encoder: type[nn.Module]) -> None:
    train(Config(CONFIG, DataConfig(scenes=8, silent=1), TrainConfig(device="cpu")), tmp_path)
    model = load_model(tmp_path)
    assert isinstance(model.visual, encoder)
    result = Localiser(tmp_path, "cpu", fps=2).localise(clip_path)
    assert result.maps.shape == (4, 2, 4, 6)  # 96 x 64 pixels seen as 84 x 56


def test_it_is_exported(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    from soundwhere.inference.export import TOLERANCE, export_onnx

    torch.manual_seed(0)
    exported = export_onnx(build(CONFIG).eval(), tmp_path / "vit.onnx")
    assert max(exported.differences.values()) < TOLERANCE


def test_an_unknown_encoder_is_named_with_those_there_are() -> None:
    with pytest.raises(ConfigError, match="no visual encoder 'vit'") as caught:
        build(replace(CONFIG, visual="vit"))
    assert "tiny-vit" in caught.value.remedy
