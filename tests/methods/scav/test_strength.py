"""Where features are strong, and a head that learns to guess it from one scale."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from soundwhere.data.features import Eye
from soundwhere.methods.scav.strength import (
    CELL_PX,
    SCALES,
    STEPS,
    STRENGTH,
    StrengthHead,
    feature_strength,
    fit_head,
)

CHANNELS = 12


def test_strength_of_other_scales_is_another_entry_of_a_cache():
    """Its name holds all that decides it, whatever that is changed to."""
    kind, *scales, cell = STRENGTH.name.split("-")
    assert kind == "strength"
    assert [float(scale) for scale in scales] == pytest.approx(SCALES, abs=1e-3)
    assert cell == f"{CELL_PX}px"
    assert len(set(scales)) == len(SCALES)


def eye(weights: torch.Tensor, stride_px: int = 32) -> Eye:
    """An encoder that looks at every cell through the same weights, of shape (channels, 3, stride, stride)."""
    layer = nn.Conv2d(3, len(weights), stride_px, stride_px, bias=False)
    layer.weight = nn.Parameter(weights)
    return Eye("toy", nn.Sequential(layer, nn.ReLU()), stride_px)


def averages(stride_px: int = 32) -> Eye:
    """Features that are the mean colours of a cell."""
    weights = torch.eye(3)[:, :, None, None].expand(3, 3, stride_px, stride_px) / stride_px**2
    return eye(weights, stride_px)


@pytest.mark.parametrize("stride_px", [14, 16, 32])
def test_strength_is_where_the_features_are_strong(stride_px):
    images = torch.zeros(2, 3, 224, 224)
    images[0, :, 64:128, 32:96] = 2.0
    images[1, :, 128:, :] = 1.0
    strength = feature_strength(images, averages(stride_px))
    assert strength.shape == (2, 1, 14, 14)
    assert strength.amax((1, 2, 3)).tolist() == pytest.approx([1, 1])
    assert strength.min() >= 0
    assert strength[0, 0, 4:8, 2:6].min() > 0.5 > strength[0, 0, 10:, 8:].max()
    assert strength[1, 0, 10:].min() > 0.9 > 0.1 > strength[1, 0, :4].max()


def test_a_mirrored_picture_has_a_mirrored_strength():
    torch.manual_seed(0)
    weights = torch.randn(8, 3, 32, 32)  # looks at left and right differently
    images = torch.rand(1, 3, 224, 224)
    strength, mirrored = feature_strength(images, eye(weights)), feature_strength(images.flip(-1), eye(weights))
    apart = (strength - mirrored.flip(-1)).abs().mean()
    alone = F.conv2d(images, weights, stride=32).relu().square().sum(1)
    alone_mirrored = F.conv2d(images.flip(-1), weights, stride=32).relu().square().sum(1)
    assert apart < (alone / alone.max() - (alone_mirrored / alone_mirrored.max()).flip(-1)).abs().mean()


def test_features_of_nothing_have_no_strength():
    assert torch.equal(feature_strength(torch.zeros(1, 3, 64, 64), averages()), torch.zeros(1, 1, 4, 4))


class Pairs:
    """Frames with one bright square, whose features say where it is in a code that has to be found out."""

    def __init__(self):
        rng = np.random.default_rng(0)
        self.code = rng.standard_normal((CHANNELS, 1, 1))

    def __len__(self):
        return 200

    def __getitem__(self, index):
        rng = np.random.default_rng([1, index])
        top, left = rng.integers(5, size=2)
        strength = np.zeros((1, 14, 14), np.float16)
        strength[:, 2 * top : 2 * top + 4, 2 * left : 2 * left + 4] = 1
        here = strength[:, ::2, ::2]
        return (self.code * here + 0.3 * rng.standard_normal((CHANNELS, 7, 7))).astype(np.float16), strength


def fitted(seed=0, steps=STEPS):
    torch.manual_seed(5)
    head, calls = StrengthHead(CHANNELS), []
    state = torch.get_rng_state()
    error = fit_head(head, Pairs(), seed, lambda done, total: calls.append((done, total)))
    assert torch.equal(torch.get_rng_state(), state)  # the run around it goes on as if nothing had happened
    assert calls[-1] == (steps, steps)
    return head, error


def test_finds_the_thing_in_frames_it_was_not_fitted_to():
    head, error = fitted()
    assert error < 0.02
    assert not head.training
    assert head.fitted
    assert not StrengthHead(CHANNELS).fitted
    assert not any(parameter.requires_grad for parameter in head.parameters())
    features, strength = (np.stack(side) for side in zip(*(Pairs()[1000 + k] for k in range(20)), strict=True))
    with torch.no_grad():
        found = head(torch.from_numpy(features).float())
    expected = torch.from_numpy(strength[..., ::2, ::2]).float()
    assert found.shape == expected.shape
    assert ((found > 0.5) == (expected > 0.5)).float().mean() > 0.97


def test_the_same_seed_gives_the_same_head(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("soundwhere.methods.scav.strength.STEPS", 20)
    one, other, different = (fitted(seed, steps=20)[0] for seed in (1, 1, 2))
    for name, value in one.state_dict().items():
        torch.testing.assert_close(value, other.state_dict()[name], rtol=0, atol=0)
    assert not torch.equal(one.layers[0].weight, different.layers[0].weight)


def test_the_name_of_the_target_tells_how_it_is_made() -> None:
    """By it what is kept is found again: another scale, or another cell, must be another name."""
    assert [float(part) for part in STRENGTH.name.split("-")[1:-1]] == pytest.approx(SCALES, abs=1e-3)
    assert STRENGTH.name.endswith(f"-{CELL_PX}px")
