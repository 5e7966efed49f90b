"""Two processes that share a batch train like one that has it all: same losses, same gradients, same weights."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from soundwhere.config import Config, DataConfig, TrainConfig
from soundwhere.distributed import all_reduce_sum
from soundwhere.media.augment import blank
from soundwhere.methods.catalogue import named_config
from soundwhere.methods.files import read_tensors
from soundwhere.methods.scav import stages
from soundwhere.methods.scav.model import SCAV
from soundwhere.methods.scav.stages import Objective
from soundwhere.training.run import Run, train
from soundwhere.types import Batch

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from soundwhere.methods.scav.config import SCAVConfig
    from soundwhere.training.checkpoint import Progress

MODEL = replace(named_config("scav-tiny"), frame_px=32, dimension=16, decoupler_layers=1, decoupler_heads=2)

PAPER = replace(MODEL, stage_two="paper", cross_sample_negatives=True)

# name: model and loss, stage
OBJECTIVES: dict[str, tuple[SCAVConfig, Any]] = {
    "stage one, infonce": (MODEL, "one"),
    "stage one, paper": (replace(MODEL, stage_one="paper"), "one"),
    "stage two": (PAPER, "two"),
    "stage two with ears of its own": (replace(PAPER, second_audio_encoder=True), "two"),
    "joint, distilled": (replace(MODEL, stage_two="distil", prior_gradient=True), "joint"),
}


# runs that are stopped after a checkpoint: stage, step
STOPS = {"stopped in stage one": ("one", 2), "stopped in stage two": ("two", 1)}


def batch(rows: slice = slice(None)) -> Batch:
    generator = torch.Generator().manual_seed(0)
    sounds, image = (torch.randn(size, generator=generator) for size in ((4, 2, 5512), (4, 3, 64, 64)))
    return Batch(0.1 * sounds.sum(1), image, solos=0.1 * sounds)[rows]


def passes(name: str, rows: slice, parallel: bool) -> dict[str, Tensor]:
    """The loss, every gradient and every statistic after one backward pass in training mode."""
    config, stage = OBJECTIVES[name]
    torch.manual_seed(0)
    objective = Objective(SCAV(config), stage)
    module = DistributedDataParallel(objective) if parallel else objective
    value = module(batch(rows))["loss"]
    value.backward()
    gradients = {name: p.grad for name, p in objective.named_parameters() if p.grad is not None}
    return {"loss": value.detach(), **gradients, **dict(objective.named_buffers())}


def settings(**changes: Any) -> Config:
    """Both stages, two steps each, on eight made-up scenes."""
    method = replace(
        PAPER, second_audio_encoder=True, single_fraction=0.5, steps_one=2, steps_two=2, batch_size=8,
        learning_rate=1e-3, clip_norm=1.0,
    )  # fmt: skip
    return Config(
        method=replace(method, **changes),
        data=DataConfig(scenes=8, silent=1),
        train=TrainConfig(device="cpu", checkpoint_every_s=0, log_every=1),
    )


class KilledError(Exception):
    """What stops a run right after a checkpoint."""


def noted(blanks: list[list[int]], spectrogram: Tensor, count: int) -> Tensor:
    """Blank a spectrogram, and note how much of each scene that was."""
    state = torch.get_rng_state()
    ramp = torch.arange(spectrogram.numel(), dtype=torch.float64).reshape(spectrogram.shape)
    blanks.append((blank(ramp, count) != ramp).flatten(1).sum(1).tolist())
    torch.set_rng_state(state)
    return blank(spectrogram, count)


def interrupted(config: Config, folder: Path, stop: tuple[str, int]) -> None:
    """Train until the checkpoint of a step is written, and leave without a word, as if killed."""
    whole, save = Run(config, folder, resume=False, start=None, download=False), Run._save

    def stops(self: Run, progress: Progress, optimiser: torch.optim.Optimizer) -> None:
        save(self, progress, optimiser)
        if (progress.stage, progress.step) == stop:
            raise KilledError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Run, "_save", stops)
        with pytest.raises(KilledError):
            whole.train()
    dist.barrier()


def _work(rank: int, folder: Path) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    answers = {name: passes(name, slice(2 * rank, 2 * rank + 2), parallel=True) for name in OBJECTIVES}
    for answer in answers.values():
        answer["loss"] = all_reduce_sum(answer["loss"]) / 2
    torch.save(answers, folder / f"{rank}.pt")
    blanked = settings(blank=2, single_fraction=0.0, steps_one=3, steps_two=3)
    blanks: list[list[int]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stages, "blank", lambda seen, count: noted(blanks, seen, count))
        Run(blanked, folder / "whole", resume=False, start=None, download=False).train()
    (folder / f"blanks-{rank}.json").write_text(json.dumps(blanks))
    for name, stop in STOPS.items():
        interrupted(blanked, folder / name, stop)
        Run(blanked, folder / name, resume=True, start=None, download=False).train()
    interrupted(settings(), folder / "moved", ("one", 1))
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


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same run by one process."""
    place = tmp_path_factory.mktemp("alone")
    train(settings(), place)
    return place


def apart(run: Path, alone: Path) -> float:
    """How far two runs are from each other, as a share of the way that the second one went."""
    torch.manual_seed(0)
    begun = SCAV(settings().method).state_dict()
    found, expected = (read_tensors(each / "latest.safetensors", "model.") for each in (run, alone))
    assert found.keys() == expected.keys()

    def length(tensors: dict[str, Tensor]) -> float:
        return float(sum(tensor.float().square().sum() for tensor in tensors.values()) ** 0.5)

    moved = length({name: expected[name] - begun[name] for name in expected})
    assert moved > 0.1
    return length({name: expected[name] - found[name] for name in expected}) / moved


def test_a_run_of_two_processes_is_resumed_by_one(folder: Path, alone: Path, tmp_path: Path) -> None:
    """Close to a run by one process throughout, not equal: sums over a batch are added up in another order."""
    ends = []
    for name in ("once", "again"):
        shutil.copytree(folder / "moved", tmp_path / name)
        train(settings(), tmp_path / name, resume=True)
        ends.append(read_tensors(tmp_path / name / "latest.safetensors", ""))
    assert all(torch.equal(ends[0][key], ends[1][key]) for key in ends[0])  # on one number of processes, exact
    assert apart(tmp_path / "once", alone) < 0.02
    told = [[json.loads(line) for line in (run / "metrics.jsonl").open()] for run in (tmp_path / "once", alone)]
    assert [(line["stage"], line["step"]) for line in told[0]] == [("one", 1), ("one", 2), ("two", 1), ("two", 2)]
    # of the same scenes at every step: others have other losses
    assert [line["loss"] for line in told[0]] == pytest.approx([line["loss"] for line in told[1]], rel=1e-2)


def test_whole_runs(folder: Path, alone: Path) -> None:
    assert apart(folder / "run", alone) < 0.02
    for run in (folder / "run", alone):
        assert len((run / "metrics.jsonl").read_text().splitlines()) == 4
        assert (run / "best.safetensors").exists()


@pytest.mark.parametrize("name", list(STOPS))
def test_a_run_that_draws_is_taken_up_exactly(folder: Path, name: str) -> None:
    """Blanks are drawn in every process; the resumed run draws what the other one did."""
    for file in ("latest.safetensors", "best.safetensors", "stage-one.safetensors"):
        expected, found = (read_tensors(folder / run / file, "") for run in ("whole", name))
        assert expected.keys() == found.keys()
        assert all(torch.equal(expected[key], found[key]) for key in expected), file
    told = [[json.loads(line) for line in (folder / run / "metrics.jsonl").open()] for run in ("whole", name)]
    assert len(told[0]) == 6
    assert [line | {"samples_per_s": 0} for line in told[0]] == [line | {"samples_per_s": 0} for line in told[1]]


def test_processes_draw_different_blanks(folder: Path) -> None:
    drawn = [json.loads((folder / f"blanks-{rank}.json").read_text()) for rank in range(2)]
    assert [len(blanks) for blanks in drawn] == [6, 6]  # one for every step of both stages
    assert len({tuple(blanks) for process in drawn for blanks in process}) == 12


def test_a_batch_that_cannot_be_shared_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from soundwhere import distributed
    from soundwhere.errors import ConfigError

    monkeypatch.setattr(distributed, "world_size", lambda: 3)
    with pytest.raises(ConfigError, match="batch of 8 cannot be divided among 3 processes") as caught:
        train(settings(), tmp_path / "run")
    assert "--batch-size" in caught.value.remedy
