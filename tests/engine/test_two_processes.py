"""Two processes that share a batch train like one that has it all: same losses, same gradients, same weights."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from soundwhere.config import Config, DataConfig, LossConfig, ModelConfig, TrainConfig, model_config
from soundwhere.distributed import all_reduce_sum
from soundwhere.engine.train import train
from soundwhere.models.objective import Objective
from soundwhere.models.scav import SCAV
from soundwhere.models.storage import read_tensors
from soundwhere.types import Batch

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MODEL = replace(model_config("scav-tiny"), frame_px=32, dimension=16, decoupler_layers=1, decoupler_heads=2)

# name: model, stage, loss
OBJECTIVES: dict[str, tuple[ModelConfig, Any, LossConfig]] = {
    "stage one, infonce": (MODEL, "one", LossConfig()),
    "stage one, paper": (MODEL, "one", LossConfig(stage_one="paper")),
    "stage two": (MODEL, "two", LossConfig(stage_two="paper", cross_sample_negatives=True)),
    "stage two with ears of its own": (
        replace(MODEL, second_audio_encoder=True),
        "two",
        LossConfig(stage_two="paper", cross_sample_negatives=True),
    ),
    "joint, distilled": (MODEL, "joint", LossConfig(stage_two="distil", prior_gradient=True)),
}


def batch(rows: slice = slice(None)) -> Batch:
    generator = torch.Generator().manual_seed(0)
    sounds, image = (torch.randn(size, generator=generator) for size in ((4, 2, 5512), (4, 3, 64, 64)))
    return Batch(0.1 * sounds.sum(1), image, solos=0.1 * sounds)[rows]


def passes(name: str, rows: slice, parallel: bool) -> dict[str, Tensor]:
    """The loss, every gradient and every statistic after one backward pass in training mode."""
    model, stage, loss = OBJECTIVES[name]
    torch.manual_seed(0)
    objective = Objective(SCAV(model), stage, loss)
    module = DistributedDataParallel(objective) if parallel else objective
    value = module(batch(rows))["loss"]
    value.backward()
    gradients = {name: p.grad for name, p in objective.named_parameters() if p.grad is not None}
    return {"loss": value.detach(), **gradients, **dict(objective.named_buffers())}


def settings() -> Config:
    return Config(
        model=replace(MODEL, second_audio_encoder=True),
        loss=LossConfig(stage_two="paper", cross_sample_negatives=True),
        data=DataConfig(scenes=8, silent=1, single_fraction=0.5),
        train=TrainConfig(
            steps_one=2, steps_two=2, batch_size=8, learning_rate=1e-3, clip_norm=1.0,
            device="cpu", checkpoint_every_s=0, log_every=1,
        ),
    )  # fmt: skip


def _work(rank: int, folder: Path) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    answers = {name: passes(name, slice(2 * rank, 2 * rank + 2), parallel=True) for name in OBJECTIVES}
    for answer in answers.values():
        answer["loss"] = all_reduce_sum(answer["loss"]) / 2
    torch.save(answers, folder / f"{rank}.pt")
    train(settings(), folder / "run")  # leaves the group when it is done


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, on_two_processes: Callable[..., None]) -> Path:
    place = tmp_path_factory.mktemp("processes")
    on_two_processes(_work, place)
    return place


@pytest.mark.parametrize("name", list(OBJECTIVES))
def test_losses_and_gradients(folder: Path, name: str) -> None:
    expected = passes(name, slice(None), parallel=False)
    assert any(value.abs().max() > 1e-3 for key, value in expected.items() if "weight" in key)
    for rank in range(2):
        found = torch.load(folder / f"{rank}.pt")[name]
        assert found.keys() == expected.keys()
        for key, value in expected.items():
            scale = float(value.abs().max())
            torch.testing.assert_close(
                found[key], value, rtol=1e-3, atol=1e-3 * scale + 1e-7, msg=lambda text, key=key: f"{key}: {text}"
            )


def test_whole_runs(folder: Path, tmp_path: Path) -> None:
    train(settings(), tmp_path)
    torch.manual_seed(0)
    begun = SCAV(settings().model).state_dict()
    found, expected = (read_tensors(run / "latest.safetensors", "model.") for run in (folder / "run", tmp_path))
    assert found.keys() == expected.keys()

    def length(tensors: dict[str, Tensor]) -> float:
        return float(sum(tensor.float().square().sum() for tensor in tensors.values()) ** 0.5)

    moved = length({name: expected[name] - begun[name] for name in expected})
    apart = length({name: expected[name] - found[name] for name in expected})
    assert moved > 0.1
    assert apart < 0.02 * moved
    for run in (folder / "run", tmp_path):
        assert len((run / "metrics.jsonl").read_text().splitlines()) == 4
        assert (run / "best.safetensors").exists()


def test_a_batch_that_cannot_be_shared_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from soundwhere import distributed
    from soundwhere.errors import ConfigError

    monkeypatch.setattr(distributed, "world_size", lambda: 3)
    with pytest.raises(ConfigError, match="batch of 8 cannot be shared by 3 processes") as caught:
        train(settings(), tmp_path / "run")
    assert "--batch-size" in caught.value.remedy
