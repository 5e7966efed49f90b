"""Machines that share no folder: each finds every feature in its own."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch.nn import functional as F

from soundwhere.data.features import FeatureCache

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class Squares:
    """Seven pictures of one grey each."""

    def __len__(self) -> int:
        return 7

    def key(self, index: int) -> str:
        return f"square {index}"

    def image(self, index: int) -> np.ndarray:
        return np.full((32, 32, 3), 30 * index, np.uint8)


def _machine(rank: int, folder: Path) -> None:
    """One process of two, each on a machine of its own."""
    torch.set_num_threads(1)
    os.environ.update(LOCAL_RANK="0", LOCAL_WORLD_SIZE="1")
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    encoded: dict[str, int] = {}

    def fill(name: str, place: Path) -> None:
        cache, squares = FeatureCache(place, "avg", None), Squares()
        encoded[name] = cache.fill(squares, lambda images: F.avg_pool2d(images, 32))
        encoded[f"{name}, again"] = cache.fill(squares, lambda images: F.avg_pool2d(images, 32))
        found = [float(cache.get(squares.key(index))[0, 0, 0]) for index in range(len(squares))]
        np.testing.assert_allclose(found, [(30 * index / 255 - 0.485) / 0.229 for index in range(7)], atol=2e-3)

    fill("own folder", folder / f"cache-{rank}")
    fill("shared folder", folder / "cache")
    (folder / f"{rank}.json").write_text(json.dumps(encoded))
    dist.destroy_process_group()


@pytest.fixture(scope="module")
def encoded(tmp_path_factory: pytest.TempPathFactory, on_two_processes: Callable[..., None]) -> list[dict[str, int]]:
    place = tmp_path_factory.mktemp("machines")
    on_two_processes(_machine, place)
    return [json.loads((place / f"{rank}.json").read_text()) for rank in range(2)]


def test_every_machine_ends_up_with_every_feature(encoded: list[dict[str, int]]) -> None:
    assert [machine["own folder"] for machine in encoded] == [7, 7]
    assert [machine["own folder, again"] for machine in encoded] == [0, 0]


def test_in_a_shared_folder_nothing_is_computed_twice(encoded: list[dict[str, int]]) -> None:
    assert [machine["shared folder"] for machine in encoded] == [4, 3]
    assert [machine["shared folder, again"] for machine in encoded] == [0, 0]
