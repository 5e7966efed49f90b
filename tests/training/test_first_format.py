"""Runs that were begun when settings had the sections [model], [loss], [data] and [train] go on as if nothing was."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import torch
from safetensors.torch import save_file

from soundwhere.cli.main import run as command
from soundwhere.config import to_dict
from soundwhere.errors import ConfigError
from soundwhere.methods.files import read_facts, read_tensors
from soundwhere.training.checkpoint import read_progress
from soundwhere.training.run import train

if TYPE_CHECKING:
    from pathlib import Path

    from soundwhere.config import Config

# The settings of the first format by section; those of [data] and [train] that are not here stayed where they were.
MODEL = [
    *("name", "visual", "audio", "visual_weights", "audio_weights", "freeze_visual", "fine_grid", "frame_px"),
    *("spectrogram", "pooling", "similarity", "thresholds", "prior", "prior_features", "dimension"),
    *("decoupler_layers", "decoupler_heads", "share_decoupler", "maps", "sounding_threshold", "decouple"),
    "second_audio_encoder",
]
LOSS = ["stage_one", "stage_two", "teacher", "softness", "cross_sample_negatives", "prior_gradient", "blank"]
DATA = ["single_fraction"]
TRAIN = [
    *("stage", "steps_one", "steps_two", "batch_size", "batch_size_two", "accumulate", "learning_rate"),
    *("learning_rate_two", "schedule", "warmup_steps", "clip_norm", "trainable"),
]


def sections(config: dict[str, Any]) -> dict[str, Any]:
    """The settings of today in the sections of the first format."""
    method = config["method"]
    assert sorted([*MODEL, *LOSS, *DATA, *TRAIN]) == sorted(
        {*method, "batch_size_two", "learning_rate_two"} - {"family"}
    )

    def chosen(names: list[str]) -> dict[str, Any]:
        return {name: method[name] for name in names if name in method}

    data = {name: value for name, value in config["data"].items() if name != "level"}
    return {
        "model": chosen(MODEL),
        "loss": chosen(LOSS),
        "data": {**data, **chosen(DATA)},
        "train": {**config["train"], **chosen(TRAIN)},
    }


def rewrite(run: Path) -> None:
    """Turn a run's checkpoint and settings into files of the first format."""
    latest = run / "latest.safetensors"
    _, facts = read_facts(latest)
    old = sections(facts["config"])
    tensors = {**read_tensors(latest, ""), "random.torch": torch.get_rng_state()}
    about = {
        "format": "soundwhere-1",
        "model": json.dumps(old["model"]),
        "facts": json.dumps({**facts, "config": old}),
    }
    save_file(tensors, latest, about)
    (run / "config.json").write_text(json.dumps(old))


def odd(config: Config, **changes: Any) -> Config:
    """Settings of every section that are not the defaults."""
    settings = {
        "blank": 1, "softness": 0.2, "single_fraction": 0.5, "learning_rate_two": 5e-4, "schedule": "cosine",
        "warmup_steps": 1, "clip_norm": 3.0, "trainable": "full",
    }  # fmt: skip
    return replace(
        config, method=replace(config.method, **{**settings, **changes}), train=replace(config.train, seed=3)
    )


def same(one: Path, other: Path) -> bool:
    mine, theirs = read_tensors(one, ""), read_tensors(other, "")
    return mine.keys() == theirs.keys() and all(torch.equal(mine[name], theirs[name]) for name in mine)


@pytest.mark.parametrize("stage", ["one", "joint"])
def test_a_run_goes_on(config: Config, tmp_path: Path, stage: str) -> None:
    def long(steps: int) -> Config:
        return odd(config, stage=stage, steps_one=steps, steps_two=steps, schedule="constant", single_fraction=0.0)

    train(long(4), tmp_path / "whole")
    train(long(2), tmp_path / "old")
    stored, _ = read_progress(tmp_path / "old" / "latest.safetensors")
    rewrite(tmp_path / "old")
    assert read_progress(tmp_path / "old" / "latest.safetensors")[0] == stored
    train(long(4), tmp_path / "old", resume=True)
    for name in ("latest.safetensors", "best.safetensors"):
        assert same(tmp_path / "whole" / name, tmp_path / "old" / name), name
    settings = [json.loads((tmp_path / run / "config.json").read_text()) for run in ("whole", "old")]
    assert settings[0] == settings[1]  # written anew, in the sections of today


def test_the_command_line_takes_the_settings_of_the_run(config: Config, tmp_path: Path) -> None:
    run = tmp_path / "run"
    train(odd(config), run)
    before = {name: read_tensors(run / name, "") for name in ("latest.safetensors", "best.safetensors")}
    stored, progress = read_progress(run / "latest.safetensors")
    rewrite(run)
    assert "method" not in json.loads((run / "config.json").read_text())
    assert command(["train", "--out", str(run), "--resume"]) == 0  # there is nothing left to train
    assert json.loads((run / "config.json").read_text()) == to_dict(stored)
    assert command(["train", "--out", str(run), "--resume", "--steps-two", "3"]) == 0
    again, later = read_progress(run / "latest.safetensors")
    assert (later.stage, progress.step, later.step) == ("two", 2, 3)
    assert again == replace(stored, method=replace(stored.method, steps_two=3))
    assert not all(
        torch.equal(tensor, read_tensors(run / "latest.safetensors", "")[name])
        for name, tensor in before["latest.safetensors"].items()
    )


def test_what_it_depends_on_is_still_compared(config: Config, tmp_path: Path) -> None:
    train(odd(config, stage="one"), tmp_path)
    rewrite(tmp_path)
    with pytest.raises(ConfigError, match=r"other settings.*: method\.batch_size, method\.blank\."):
        train(odd(config, stage="one", batch_size=2, blank=2), tmp_path, resume=True)
