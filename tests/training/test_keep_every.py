from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import torch

from soundwhere.errors import ConfigError
from soundwhere.methods.files import MODEL_PREFIX, read_tensors
from soundwhere.training.run import train

if TYPE_CHECKING:
    from pathlib import Path

    from soundwhere.config import Config


def test_copies_stay_if_asked_for(tmp_path: Path, config: Config) -> None:
    kept = replace(config, train=replace(config.train, keep_every=1))
    train(kept, tmp_path / "run")
    names = [path.stem for path in sorted((tmp_path / "run" / "steps").iterdir())]
    assert names == [f"stage-{stage}-{step:06d}" for stage in ("one", "two") for step in range(3)]
    first, _, last = (
        read_tensors(tmp_path / "run" / "steps" / f"{name}.safetensors", MODEL_PREFIX) for name in names[:3]
    )
    end = read_tensors(tmp_path / "run" / "stage-one.safetensors", MODEL_PREFIX)
    assert all(torch.equal(last[name], tensor) for name, tensor in end.items())
    assert any(not torch.equal(first[name], tensor) for name, tensor in end.items())


def test_a_stage_ends_with_the_mean_of_its_last_copies(tmp_path: Path, config: Config) -> None:
    mean_of_two = replace(config, train=replace(config.train, keep_every=1, average=2))
    train(mean_of_two, tmp_path / "run")
    for stage, left in (("one", "stage-one"), ("two", "best")):
        copies = [tmp_path / "run" / "steps" / f"stage-{stage}-{step:06d}.safetensors" for step in (1, 2)]
        first, last = (read_tensors(path, MODEL_PREFIX) for path in copies)
        end = read_tensors(tmp_path / "run" / f"{left}.safetensors", MODEL_PREFIX)
        assert any(not torch.equal(first[name], last[name]) for name in end)
        for name, tensor in end.items():
            expected = (first[name] + last[name]) / 2 if tensor.is_floating_point() else last[name]
            torch.testing.assert_close(tensor, expected, rtol=0, atol=1e-7)
    train(mean_of_two, tmp_path / "run", resume=True)
    again = read_tensors(tmp_path / "run" / "best.safetensors", MODEL_PREFIX)
    assert all(torch.equal(again[name], tensor) for name, tensor in end.items())


def test_too_few_copies_have_no_mean(tmp_path: Path, config: Config) -> None:
    one_stage = replace(config, method=replace(config.method, stage="one"))
    ends = []
    for average in (0, 3):
        folder = tmp_path / str(average)
        train(replace(one_stage, train=replace(config.train, keep_every=1, average=average)), folder)
        ends.append(read_tensors(folder / "best.safetensors", MODEL_PREFIX))
    assert all(torch.equal(ends[0][name], tensor) for name, tensor in ends[1].items())
    with pytest.raises(ConfigError, match="average"):
        replace(config.train, average=3)


def test_nothing_is_kept_by_default(tmp_path: Path, config: Config) -> None:
    one_stage = replace(config, method=replace(config.method, stage="one"))
    train(one_stage, tmp_path / "run")
    assert not (tmp_path / "run" / "steps").exists()
    with pytest.raises(ConfigError, match="keep_every"):
        replace(config.train, keep_every=-1)
