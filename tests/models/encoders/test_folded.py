"""What is folded answers the same; nothing happens to what it was made of."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from soundwhere.models.encoders import build_visual
from soundwhere.models.encoders.folded import folded


def _used(name: str) -> nn.Module:
    """An encoder whose norms do something."""
    torch.manual_seed(0)
    encoder: nn.Module = build_visual(name)
    for part in encoder.modules():
        if isinstance(part, nn.BatchNorm2d):
            assert part.running_mean is not None
            assert part.running_var is not None
            nn.init.normal_(part.running_mean, std=0.3)
            nn.init.uniform_(part.running_var, 0.5, 2)
            nn.init.uniform_(part.weight, 0.5, 1.5)
            nn.init.normal_(part.bias, std=0.3)
    return encoder.eval()


def _norms(encoder: nn.Module) -> int:
    return sum(isinstance(part, nn.BatchNorm2d) for part in encoder.modules())


@pytest.mark.parametrize("name", ["mobilenet_v2", "tiny", "resnet18"])
@torch.no_grad()
def test_the_features_are_the_same(name: str) -> None:
    encoder, image = _used(name), torch.randn(2, 3, 64, 96)
    before, weights = encoder(image), copy.deepcopy(encoder.state_dict())
    quick = folded(encoder)
    torch.testing.assert_close(quick(image), before, rtol=1e-4, atol=1e-4)
    assert _norms(quick) < _norms(encoder)
    assert torch.equal(encoder(image), before)
    assert all(torch.equal(value, weights[key]) for key, value in encoder.state_dict().items())


def test_mobilenet_keeps_no_norm() -> None:
    assert _norms(folded(_used("mobilenet_v2"))) == 0


def test_a_norm_that_learns_stays() -> None:
    encoder = _used("tiny").train()
    assert _norms(folded(encoder)) == _norms(encoder) > 0


def test_a_bias_and_what_is_beside_convolutions() -> None:
    layers = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.BatchNorm2d(4)).eval()
    for norm in (layers[1], layers[3]):
        nn.init.normal_(norm.running_mean)  # type: ignore[arg-type]
    quick, image = folded(layers), torch.randn(1, 3, 8, 8)
    assert _norms(quick) == 1
    torch.testing.assert_close(quick(image), layers(image))
    assert quick[3].weight is layers[3].weight


@pytest.mark.parametrize("choice", ["affine", "track_running_stats"])
def test_norms_of_other_kinds_stay(choice: str) -> None:
    layers = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4, **{choice: False})).eval()
    assert _norms(folded(layers)) == 1
