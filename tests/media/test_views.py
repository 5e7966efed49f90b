"""Pictures changed at random: the right share of them, by as much as was said, and never beyond what they are."""

from __future__ import annotations

import pytest
import torch

from soundwhere.media.image import normalise
from soundwhere.media.views import VIEWS, View, change_views, cut


def pictures(count: int = 6) -> torch.Tensor:
    pixels = torch.randint(0, 256, (count, 32, 32, 3), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    return normalise(pixels)


@pytest.mark.parametrize("name", VIEWS)
def test_every_view_keeps_shape_and_range_and_follows_the_seed(name: str) -> None:
    images = pictures()
    found = []
    for _ in range(2):
        torch.manual_seed(1)
        found.append(change_views(images, VIEWS[name]))
    assert torch.equal(*found)
    assert found[0].shape == images.shape
    limits = normalise(torch.tensor([0, 255], dtype=torch.uint8)[:, None, None, None].expand(2, 1, 1, 3))
    assert (found[0] >= limits[0] - 1e-4).all()
    assert (found[0] <= limits[1] + 1e-4).all()


def test_no_view_changes_nothing() -> None:
    images = pictures()
    assert change_views(images, VIEWS["none"]) is images


def test_mirroring_is_exact() -> None:
    images = pictures()
    torch.testing.assert_close(change_views(images, View(flip=1.0)), images.flip(-1))
    torch.testing.assert_close(change_views(images, View(flip=0.0, side=1.0, ratio=(1, 1))), images)


def test_a_cut_shows_a_part_of_the_picture() -> None:
    ramp = torch.linspace(0, 1, 64).expand(200, 1, 64, 64)
    torch.manual_seed(0)
    shown = cut(ramp, View(side=0.5))
    spread = (shown[:, 0, 0, -1] - shown[:, 0, 0, 0]) / (63 / 64 * 64 / 63)
    torch.testing.assert_close(spread, torch.full((200,), 0.5), atol=0.02, rtol=0)
    assert shown[:, 0, 0, 0].min() < 0.05
    assert shown[:, 0, 0, -1].max() > 0.95


def test_grey_has_no_colour_and_blur_is_smooth() -> None:
    images = pictures()
    grey = change_views(images, View(grey=1.0))
    black = normalise(torch.zeros(1, 1, 3, dtype=torch.uint8))[None]
    white = normalise(torch.full((1, 1, 3), 255, dtype=torch.uint8))[None]
    levels = (grey - black) / (white - black)
    torch.testing.assert_close(levels, levels.mean(1, keepdim=True).expand_as(levels), atol=1e-5, rtol=0)
    torch.manual_seed(0)
    assert (change_views(images, View(blur=1.0)).var() < images.var()).item()


def test_hues_turn_and_greys_stay() -> None:
    torch.manual_seed(0)
    red = normalise(torch.tensor([255, 0, 0], dtype=torch.uint8).expand(50, 2, 2, 3))
    turned = change_views(red, View(hue=0.1, light=1.0))
    assert turned[:, 1:, 0, 0].std() > 0.05
    grey = normalise(torch.full((50, 2, 2, 3), 100, dtype=torch.uint8))
    torch.testing.assert_close(change_views(grey, View(hue=0.1, light=1.0)), grey, atol=1e-4, rtol=0)
