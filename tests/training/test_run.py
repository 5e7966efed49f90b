"""A run in its folder: what it leaves, how it is taken up again, and what it refuses."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from PIL import Image

from soundwhere.data.training_scenes import Needs
from soundwhere.errors import ConfigError
from soundwhere.methods.files import read_facts, read_model, read_tensors
from soundwhere.methods.lvs import LVSConfig
from soundwhere.methods.scav import stages
from soundwhere.training import run as module
from soundwhere.training.checkpoint import Progress, read_progress
from soundwhere.training.run import train

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from soundwhere.config import Config, DataConfig
    from soundwhere.data.draws import Draws
    from soundwhere.data.training_scenes import FramePairs
    from soundwhere.methods.scav.strength import StrengthHead


def same(one: Path, other: Path) -> bool:
    mine, theirs = read_tensors(one, ""), read_tensors(other, "")
    return mine.keys() == theirs.keys() and all(torch.equal(mine[name], theirs[name]) for name in mine)


def test_both_stages_leave_everything(config: Config, tmp_path: Path) -> None:
    best = train(config, tmp_path)
    assert best == tmp_path / "best.safetensors"
    files = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if "tensorboard" not in path.parts}
    assert files == {
        "best.safetensors",
        "latest.safetensors",
        "stage-one.safetensors",
        "config.json",
        "metrics.jsonl",
        "sheets",
        "sheets/stage-one-0001.png",
        "sheets/stage-two-0001.png",
    }
    entries = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [(entry["stage"], entry["step"]) for entry in entries] == [("one", 1), ("one", 2), ("two", 1), ("two", 2)]
    assert all(np.isfinite(value) for entry in entries for value in entry.values() if not isinstance(value, str))
    assert read_model(best).sources == 2
    one = read_model(tmp_path / "stage-one.safetensors")
    assert one.sources == 1
    finished = read_model(best)
    for name, tensor in one.state_dict().items():
        assert torch.equal(tensor, finished.state_dict()[name]), name  # stage 2 left stage 1 alone
    assert Image.open(tmp_path / "sheets" / "stage-two-0001.png").size[0] > 4 * 32


def test_the_seed_decides_everything(config: Config, tmp_path: Path) -> None:
    config = replace(config, method=replace(config.method, stage="one"))
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        train(replace(config, train=replace(config.train, seed=seed)), tmp_path / name)
    assert same(tmp_path / "a" / "latest.safetensors", tmp_path / "b" / "latest.safetensors")
    assert not same(tmp_path / "a" / "latest.safetensors", tmp_path / "c" / "latest.safetensors")


@pytest.mark.parametrize("stage", ["one", "joint"])
def test_a_run_can_be_made_longer(config: Config, tmp_path: Path, stage: str) -> None:
    def long(steps: int) -> Config:
        return replace(config, method=replace(config.method, stage=stage, steps_one=steps, steps_two=steps))

    train(long(3), tmp_path / "whole")
    train(long(1), tmp_path / "parts")
    train(long(3), tmp_path / "parts", resume=True)
    for name in ("latest.safetensors", "best.safetensors"):
        assert same(tmp_path / "whole" / name, tmp_path / "parts" / name), name
    assert read_model(tmp_path / "whole" / "best.safetensors").sources == (1 if stage == "one" else 2)


def test_a_finished_run_is_resumed_without_data(
    config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    best = train(config, tmp_path)
    before = best.read_bytes()
    monkeypatch.setattr("soundwhere.training.run.make_draws", lambda *_, **__: pytest.fail("nothing is left to train"))
    assert train(config, tmp_path, resume=True) == best
    assert best.read_bytes() == before


def test_stage_two_alone_starts_from_a_file_and_resumes_without_it(config: Config, tmp_path: Path) -> None:
    first = replace(config, method=replace(config.method, stage="one"))
    train(first, tmp_path / "first")
    second = replace(config, method=replace(config.method, stage="two", steps_two=1))
    start = tmp_path / "first" / "stage-one.safetensors"
    train(second, tmp_path / "second", start=start)
    longer = replace(second, method=replace(second.method, steps_two=2))
    best = train(longer, tmp_path / "second", resume=True)
    assert read_progress(tmp_path / "second" / "latest.safetensors")[1].step == 2
    one, both = read_model(start), read_model(best)
    assert all(torch.equal(tensor, both.state_dict()[name]) for name, tensor in one.state_dict().items())


def test_what_a_run_depends_on_cannot_change_on_the_way(config: Config, tmp_path: Path) -> None:
    config = replace(config, method=replace(config.method, stage="one"))
    train(config, tmp_path)
    before = (tmp_path / "latest.safetensors").read_bytes()
    other = replace(
        config,
        method=replace(config.method, blank=2, batch_size=2, learning_rate=0.5),
        data=replace(config.data, silent=0),
        train=replace(config.train, seed=5, log_every=7),
    )
    with pytest.raises(
        ConfigError, match=r"other settings.*: data\.silent, method\.batch_size, method\.blank, train\.seed\."
    ):
        train(other, tmp_path, resume=True)
    with pytest.raises(ConfigError, match="already holds a run") as caught:
        train(config, tmp_path)
    assert "--resume" in caught.value.remedy
    assert (tmp_path / "latest.safetensors").read_bytes() == before


def test_a_run_of_another_method_is_not_gone_on_with(config: Config, tmp_path: Path) -> None:
    config = replace(config, method=replace(config.method, stage="one", steps_one=1))
    train(config, tmp_path)
    rival = LVSConfig(visual="tiny", audio="tiny", frame_px=64, spectrogram="mel", steps=2)
    with pytest.raises(ConfigError, match="trains the method 'scav', but 'lvs' is to be trained"):
        train(replace(config, method=rival), tmp_path, resume=True)


def test_a_run_that_has_passed_its_end_still_gives_a_model(
    config: Config, tmp_path: Path, scripted: list[float]
) -> None:
    scripted += [5]
    config = replace(config, method=replace(config.method, stage="one", steps_one=8))
    with pytest.raises(IndexError):
        train(config, tmp_path)
    assert not (tmp_path / "best.safetensors").exists()
    best = train(replace(config, method=replace(config.method, steps_one=1)), tmp_path, resume=True)
    assert step_of(best) == 1


def test_a_refused_run_leaves_the_other_processes(
    config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = []
    monkeypatch.setattr(module.distributed, "shutdown", lambda: left.append(True))
    with pytest.raises(ConfigError):
        train(config, tmp_path, resume=True)
    assert left


def test_nothing_to_resume(config: Config, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="holds no run to resume"):
        train(config, tmp_path / "none", resume=True)
    assert not (tmp_path / "none").exists()


def test_leftovers_of_a_killed_run_are_cleared(config: Config, tmp_path: Path) -> None:
    (tmp_path / ".0123456789ab.partial.safetensors").write_bytes(b"half a checkpoint")
    (tmp_path / "metrics.jsonl").write_text('{"stage": "joint", "step": 1}\n')
    train(replace(config, method=replace(config.method, stage="one", steps_one=1)), tmp_path)
    assert not list(tmp_path.glob(".*"))
    assert "joint" not in (tmp_path / "metrics.jsonl").read_text()


@pytest.mark.parametrize(
    ("section", "changes", "message"),
    [
        ("method", {"stage": "two"}, "needs a trained stage one"),
        ("method", {"decouple": False}, "decouple is off"),
        ("data", {"mixtures": "native"}, "native mixtures have none"),
        ("data", {"source": "folder"}, "needs a folder"),
        ("method", {"teacher": "strength"}, "needs clips"),
        ("method", {"maps": "shaped"}, "need clips"),
        ("method", {"cross_sample_negatives": True}, "belong to the paper's stage-2 loss"),
        ("method", {"audio_weights": "visual", "audio": "compact"}, "cannot start from the weights of the visual one"),
        ("method", {"frame_px": 40}, "frame_px is 40"),
    ],
)
def test_contradictions_are_refused(
    config: Config, tmp_path: Path, section: str, changes: dict[str, Any], message: str
) -> None:
    config = replace(config, **{section: replace(getattr(config, section), **changes)})
    with pytest.raises(ConfigError, match=message) as caught:
        train(config, tmp_path / "run")
    assert caught.value.remedy


def test_full_training_gives_stage_two_ears_of_its_own(config: Config, tmp_path: Path) -> None:
    config = replace(config, method=replace(config.method, trainable="full"))
    model = read_model(train(config, tmp_path))
    assert model.second_audio is not None
    one = read_model(tmp_path / "stage-one.safetensors")
    assert torch.equal(next(model.audio.parameters()), next(one.audio.parameters()))
    assert not torch.equal(next(model.second_audio.parameters()), next(one.audio.parameters()))


def test_scenes_are_drawn_for_their_stage(config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, make = [], module.make_draws

    def noted(data: DataConfig, needs: Needs, **more: Any) -> Draws:
        asked.append((needs, more["batch_size"], more["eye"]))
        return make(data, needs, **more)

    monkeypatch.setattr(module, "make_draws", noted)
    train(replace(config, method=replace(config.method, single_fraction=0.5, batch_size_two=2)), tmp_path)
    assert asked == [(Needs(sounds=1), 4, None), (Needs(sounds=2), 4, None), (Needs(sounds=2, separate=True), 2, None)]


def test_the_strength_head_is_fitted_once_and_kept(
    config: Config, clip_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    films, fits = tmp_path / "films", []
    films.mkdir()
    for number in range(4):
        shutil.copy(clip_path, films / f"{number}.mp4")

    def counted(head: StrengthHead, pairs: FramePairs, seed: int, progress: object) -> float:
        fits.append(len(pairs))
        torch.nn.init.constant_(head.layers[-1].bias, 0.25)
        head.train()(torch.zeros(2, head.layers[0].in_channels, 1, 1))
        return 0.0

    monkeypatch.setattr(stages, "fit_head", counted)
    config = replace(
        config,
        method=replace(config.method, maps="shaped", freeze_visual=True),
        data=replace(config.data, source="folder", root=films, silent=1, cache=tmp_path / "cache"),
    )
    first = train(config, tmp_path / "first")
    assert fits == [4]
    two = replace(config, method=replace(config.method, stage="two"))
    again = train(two, tmp_path / "again", start=first)
    assert fits == [4]  # the one it started from is good enough
    train(replace(two, method=replace(two.method, steps_two=3)), tmp_path / "again", resume=True)
    assert fits == [4]
    with monkeypatch.context() as killed:
        killed.setattr(module, "write_model", lambda *_, **__: pytest.fail("killed after stage 1's last checkpoint"))
        with pytest.raises(pytest.fail.Exception):
            train(config, tmp_path / "killed", start=first)
    resumed = train(config, tmp_path / "killed", resume=True)
    assert fits == [4]
    for path in (first, again, resumed):
        head = read_model(path).strength
        assert head is not None
        assert head.layers[-1].bias.item() == 0.25


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Steps whose smoothed losses are those of a list; each writes its number into the model."""
    losses: list[float] = []

    def steps(objective: Any, _optimiser: Any, batches: Any, place: Progress, *_: Any, **__: Any) -> Iterator[Any]:
        for _batch in batches:
            place = replace(place, step=place.step + 1, smooth_loss=losses[place.step])
            with torch.no_grad():
                next(objective.model.audio.parameters()).fill_(place.step)
            yield place, {"loss": place.smooth_loss}

    monkeypatch.setattr(module, "run_stage", steps)
    monkeypatch.setattr(module, "write_sheet", lambda *_: None)
    return losses


def step_of(path: Path) -> float:
    return next(read_model(path).audio.parameters()).flatten()[0].item()


def test_best_is_the_lowest_smoothed_loss_and_not_the_latest(
    config: Config, tmp_path: Path, scripted: list[float]
) -> None:
    scripted += [5, 4, 3, 2, 3, 4, 2.5, 2.5]
    config = replace(config, method=replace(config.method, stage="one", steps_one=8))
    train(config, tmp_path)
    assert step_of(tmp_path / "latest.safetensors") == 8
    assert step_of(tmp_path / "best.safetensors") == 4
    assert read_progress(tmp_path / "latest.safetensors")[1].best_loss == 2
    assert read_facts(tmp_path / "best.safetensors")[1]["config"]["method"]["steps_one"] == 8


def test_losses_on_single_clips_do_not_compete(config: Config, tmp_path: Path, scripted: list[float]) -> None:
    scripted += [1, 1, 1, 1, 9, 8, 7, 8]
    config = replace(
        config,
        method=replace(config.method, stage="one", steps_one=8, single_fraction=0.5),
        train=replace(config.train, checkpoint_every_s=1e6),
    )
    train(config, tmp_path)
    assert step_of(tmp_path / "best.safetensors") in (6, 8)
    assert read_progress(tmp_path / "latest.safetensors")[1].best_loss == 8
