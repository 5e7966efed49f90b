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


def test_nothing_is_kept_by_default(tmp_path: Path, config: Config) -> None:
    one_stage = replace(config, method=replace(config.method, stage="one"))
    train(one_stage, tmp_path / "run")
    assert not (tmp_path / "run" / "steps").exists()
    with pytest.raises(ConfigError, match="keep_every"):
        replace(config.train, keep_every=-1)
