import pytest
import torch
from soundwhere.data.strength import feature_strength
from torch.nn import functional as F


def encode(images: torch.Tensor) -> torch.Tensor:
    return F.avg_pool2d(images, 32)


def test_strength_is_where_the_features_are_strong():
    images = torch.zeros(2, 3, 224, 224)
    images[0, :, 64:128, 32:96] = 2.0
    images[1, :, 128:, :] = 1.0
    strength = feature_strength(images, encode)
    assert strength.shape == (2, 1, 14, 14)
    assert strength.amax((1, 2, 3)).tolist() == pytest.approx([1, 1])
    assert strength.min() >= 0
    assert strength[0, 0, 4:8, 2:6].min() > 0.5 > strength[0, 0, 10:, 8:].max()
    assert strength[1, 0, 10:].min() > 0.9 > 0.1 > strength[1, 0, :4].max()


def test_a_mirrored_picture_has_a_mirrored_strength():
    torch.manual_seed(0)
    weights = torch.randn(8, 3, 32, 32)  # looks at left and right differently
    images = torch.rand(1, 3, 224, 224)
    strength = feature_strength(images, lambda seen: F.conv2d(seen, weights, stride=32).relu())
    mirrored = feature_strength(images.flip(-1), lambda seen: F.conv2d(seen, weights, stride=32).relu())
    apart = (strength - mirrored.flip(-1)).abs().mean()
    alone = F.conv2d(images, weights, stride=32).relu().square().sum(1)
    alone_mirrored = F.conv2d(images.flip(-1), weights, stride=32).relu().square().sum(1)
    assert apart < (alone / alone.max() - (alone_mirrored / alone_mirrored.max()).flip(-1)).abs().mean()


def test_features_of_nothing_have_no_strength():
    assert torch.equal(feature_strength(torch.zeros(1, 3, 64, 64), encode), torch.zeros(1, 1, 4, 4))
