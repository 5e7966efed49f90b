"""MobileNetV2 with torchvision's real weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from PIL import Image

from soundwhere import constants
from soundwhere.models.encoders import build_visual
from soundwhere.models.encoders.mobilenet import MobileNetV2
from soundwhere.models.encoders.weights import load_weights, read_weights

if TYPE_CHECKING:
    from pathlib import Path

DOGS = range(151, 269)  # ImageNet's breeds of dog


@pytest.fixture(scope="module")
def weights(shared: Path) -> Path:
    path = shared / "weights" / "mobilenet_v2-b0353104.pth"
    if not path.is_file():
        pytest.skip("needs torchvision's MobileNetV2 weights")
    return path


@pytest.fixture(scope="module")
def encoder(weights: Path) -> MobileNetV2:
    encoder = build_visual("mobilenet_v2")
    assert isinstance(encoder, MobileNetV2)
    load_weights(encoder, "mobilenet_v2", str(weights))
    return encoder.eval()


def _normalised(path: Path) -> torch.Tensor:
    picture = np.asarray(Image.open(path).convert("RGB").resize((224, 224)), dtype=np.float32) / 255
    normalised = (picture - np.array(constants.IMAGENET_MEAN)) / np.array(constants.IMAGENET_STD)
    return torch.from_numpy(normalised).float().permute(2, 0, 1)


def test_every_name_of_the_real_file_is_accounted_for(encoder: MobileNetV2, weights: Path) -> None:
    stored = read_weights(weights)
    own = encoder.state_dict()
    assert set(stored) - set(own) == {"classifier.1.weight", "classifier.1.bias"}
    assert set(own) <= set(stored)
    for name, value in own.items():
        torch.testing.assert_close(value, stored[name], rtol=0, atol=0)


def test_photos_of_dogs_look_like_dogs(encoder: MobileNetV2, weights: Path, shared: Path) -> None:
    photos = sorted((shared / "data/real-duet/images/dog").glob("*.jpg"))[:12]
    if not photos:
        pytest.skip("needs the real-duet photos")
    stored = read_weights(weights)
    with torch.no_grad():
        features = encoder(torch.stack([_normalised(photo) for photo in photos]))
        scores = features.mean((2, 3)) @ stored["classifier.1.weight"].T + stored["classifier.1.bias"]
    assert features.shape == (len(photos), 1280, 7, 7)
    assert features.max() <= 6
    right = [int(best) in DOGS for best in scores.argmax(1)]
    assert sum(right) >= 0.75 * len(photos)


def test_a_fine_grid_takes_the_same_weights_and_sees_the_same_things() -> None:
    torch.manual_seed(0)
    coarse, fine = MobileNetV2().eval(), MobileNetV2(fine=True).eval()
    fine.load_state_dict(coarse.state_dict())
    image = torch.randn(1, 3, 96, 128)
    with torch.no_grad():
        seen, finely = coarse(image), fine(image)
    assert seen.shape[-2:] == (3, 4)
    assert finely.shape[-2:] == (6, 8)
    # every second cell of the fine grid looks at what a coarse cell looks at; only the padding differs
    torch.testing.assert_close(finely[..., ::2, ::2][..., 1:-1, 1:-1], seen[..., 1:-1, 1:-1], rtol=1e-3, atol=1e-3)
