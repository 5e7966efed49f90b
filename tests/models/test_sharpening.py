"""The guided filter against its definition, solved window by window in numpy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from soundwhere.models.sharpening import sharpen

if TYPE_CHECKING:
    from pathlib import Path


def reference(target: np.ndarray, guide: np.ndarray, radius: int, smoothness: float) -> np.ndarray:
    """He, Sun and Tang (2013): a linear fit in every window, then the mean of the fits that cover a pixel."""
    height, width = target.shape
    slopes, offsets = np.zeros((height, width, 3)), np.zeros((height, width))

    def window(row: int, column: int) -> tuple[slice, slice]:
        return slice(max(0, row - radius), row + radius + 1), slice(max(0, column - radius), column + radius + 1)

    for row in range(height):
        for column in range(width):
            area = window(row, column)
            colours, values = guide[area].reshape(-1, 3), target[area].ravel()
            matrix = np.cov(colours.T, bias=True) + smoothness * np.eye(3)
            slopes[row, column] = np.linalg.solve(matrix, ((colours - colours.mean(0)).T * values).mean(1))
            offsets[row, column] = values.mean() - slopes[row, column] @ colours.mean(0)
    result = np.zeros((height, width))
    for row in range(height):
        for column in range(width):
            area = window(row, column)
            result[row, column] = slopes[area].reshape(-1, 3).mean(0) @ guide[row, column] + offsets[area].mean()
    return result


def test_agrees_with_its_definition() -> None:
    rng = np.random.default_rng(0)
    picture, maps = rng.random((2, 12, 16, 3)), rng.random((2, 3, 12, 16))
    ours = sharpen(torch.from_numpy(maps), torch.from_numpy(picture).permute(0, 3, 1, 2), 3, 0.01, stride_px=1)
    for scene in range(2):
        for source in range(3):
            expected = reference(maps[scene, source], picture[scene], 3, 0.01)
            np.testing.assert_allclose(ours[scene, source].numpy(), expected, atol=1e-8)


def disc(side: int = 96) -> tuple[Tensor, Tensor]:
    """A red disc on blue, shape (1, 3, H, W), and where it is, (H, W)."""
    rows, columns = torch.meshgrid(torch.arange(side), torch.arange(side), indexing="ij")
    inside = (rows - side / 2) ** 2 + (columns - side / 2) ** 2 < (side / 4) ** 2
    picture = torch.where(
        inside, torch.tensor([0.9, 0.1, 0.1])[:, None, None], torch.tensor([0.1, 0.2, 0.8])[:, None, None]
    )
    return picture[None], inside


@pytest.mark.parametrize("stride_px", [1, 2, 4])
def test_a_coarse_map_takes_the_shape_of_its_thing(stride_px: int) -> None:
    picture, inside = disc()
    coarse = nn.functional.avg_pool2d(inside[None, None].float(), 32)

    def overlap(maps: Tensor) -> float:
        lit = maps[0, 0] >= (maps.amin() + maps.amax()) / 2
        return float((lit & inside).sum() / (lit | inside).sum())

    plain = nn.functional.interpolate(coarse, size=(96, 96), mode="bilinear", align_corners=False)
    sharp = sharpen(coarse, picture, stride_px=stride_px)
    assert sharp.shape == (1, 1, 96, 96)
    assert overlap(sharp) > 0.9 > overlap(plain) + 0.1


def test_a_picture_without_edges_only_smooths() -> None:
    maps = torch.rand(1, 2, 3, 4, generator=torch.Generator().manual_seed(0))
    sharp = sharpen(maps, torch.full((1, 3, 96, 128), 0.5))
    assert sharp.shape == (1, 2, 96, 128)
    assert sharp.amin() >= maps.amin() - 1e-4
    assert sharp.amax() <= maps.amax() + 1e-4


def test_constant_maps_stay_constant() -> None:
    picture = torch.rand(1, 3, 64, 96, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(sharpen(torch.full((1, 1, 2, 3), 0.3), picture), torch.full((1, 1, 64, 96), 0.3))


def test_sources_do_not_touch_each_other() -> None:
    picture, _ = disc()
    maps = torch.rand(1, 3, 3, 3, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(sharpen(maps, picture)[:, 1:2], sharpen(maps[:, 1:2], picture))


def test_it_can_be_exported(tmp_path: Path) -> None:
    ort = pytest.importorskip("onnxruntime")

    class Sharpen(nn.Module):
        def forward(self, maps: Tensor, picture: Tensor) -> Tensor:
            return sharpen(maps, picture)

    maps, (picture, _) = torch.rand(1, 2, 3, 3), disc()
    path = tmp_path / "sharpen.onnx"
    torch.onnx.export(
        Sharpen(),
        (maps, picture),
        str(path),
        input_names=["maps", "picture"],
        dynamic_axes={"maps": {2: "rows", 3: "columns"}, "picture": {2: "height", 3: "width"}},
        dynamo=False,
    )
    wide = torch.rand(1, 3, 64, 192), torch.rand(1, 2, 2, 6)
    session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    found = session.run(None, {"maps": wide[1].numpy(), "picture": wide[0].numpy()})[0]
    np.testing.assert_allclose(found, sharpen(wide[1], wide[0]).numpy(), atol=1e-4)
