"""Rivals that contrast whole batches: two processes that share one get the loss and gradients of one that has it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from soundwhere.distributed import all_reduce_sum
from soundwhere.methods.catalogue import find_method, named_config
from soundwhere.types import Batch

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

RIVALS = ("lvs", "ez-vsl", "slavc", "fnac", "jsa", "oa-ssl")


def batch(rows: slice = slice(None)) -> Batch:
    generator = torch.Generator().manual_seed(0)
    shapes = (4, 8000), (4, 3, 64, 64), (4, 1, 3, 10)
    sounds, image, captions = (torch.randn(shape, generator=generator) for shape in shapes)
    return Batch(0.1 * sounds, image, captions=captions)[rows]


def passes(name: str, rows: slice, parallel: bool) -> dict[str, Tensor]:
    """The loss and every gradient after one backward pass in training mode, with nothing drawn at random."""
    small: dict[str, Any] = {"visual": "tiny", "audio": "tiny", "visual_weights": "none", "frame_px": 64}
    small |= {"spectrogram": "mel", "augment": "none", "batch_size": 4, "dimension": 16}
    own: dict[str, dict[str, Any]] = {
        "ez-vsl": {"maps": "avl"},
        "slavc": {"dropout": 0.0},
        "fnac": {"maps": "avl", "dropout": 0.0, "contrastive_steps": 0},
        "jsa": {"mask_ratio": 0.0, "blank": 0, "reciprocal": 2},
        "oa-ssl": {"freeze_visual": False, "caption_width": 10},
    }
    config: Any = replace(named_config(name), **{**small, **own.get(name, {})})
    method = find_method(config.family)
    torch.manual_seed(0)
    objective = method.stages(config)[0].objective(method.build(config))
    module = DistributedDataParallel(objective) if parallel else objective
    value = module(batch(rows))["loss"]
    value.backward()
    return {"loss": value.detach(), **{key: p.grad for key, p in objective.named_parameters() if p.grad is not None}}


def _work(rank: int, folder: Path) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    answers = {name: passes(name, slice(2 * rank, 2 * rank + 2), parallel=True) for name in RIVALS}
    for answer in answers.values():
        answer["loss"] = all_reduce_sum(answer["loss"]) / 2
    torch.save(answers, folder / f"{rank}.pt")
    dist.destroy_process_group()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, on_two_processes: Callable[..., None]) -> Path:
    place = tmp_path_factory.mktemp("processes")
    on_two_processes(_work, place)
    return place


@pytest.mark.parametrize("name", RIVALS)
def test_losses_and_gradients(folder: Path, name: str) -> None:
    expected = passes(name, slice(None), parallel=False)
    for rank in range(2):
        found = torch.load(folder / f"{rank}.pt")[name]
        assert found.keys() == expected.keys()
        for key, value in expected.items():
            scale = float(value.abs().max())
            torch.testing.assert_close(
                found[key], value, rtol=1e-3, atol=1e-3 * scale + 1e-6, msg=lambda text, key=key: f"{key}: {text}"
            )
