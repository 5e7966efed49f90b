from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from soundwhere.errors import CheckpointError
from soundwhere.methods import files as registry
from soundwhere.methods.files import load_model, model_file, sha256, write_model
from soundwhere.methods.scav.config import NAMED
from soundwhere.methods.scav.model import SCAV

if TYPE_CHECKING:
    from pathlib import Path

    from soundwhere.methods.scav.config import SCAVConfig


@pytest.fixture
def shelf(tmp_path: Path, tiny: SCAVConfig, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package that ships weights under the name `small`."""
    path = tmp_path / "small.safetensors"
    write_model(path, SCAV(tiny), half=True)
    monkeypatch.setattr(registry, "WEIGHTS", tmp_path)
    monkeypatch.setattr(registry, "SHIPPED", {"small": sha256(path)})
    return path


def test_by_name_by_path_and_by_folder(shelf: Path, tiny: SCAVConfig, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "best.safetensors").write_bytes(shelf.read_bytes())
    for name in ("small", shelf, str(shelf), tmp_path / "run"):
        model = load_model(name)
        assert model.config == tiny
        assert not model.training
        assert model_file(name).read_bytes() == shelf.read_bytes()


@pytest.mark.parametrize("damage", ["changed", "removed"])
def test_damaged_built_in_weights_are_noticed(shelf: Path, damage: str) -> None:
    if damage == "changed":
        shelf.write_bytes(shelf.read_bytes()[:-1] + b"\x01")
    else:
        shelf.unlink()
    with pytest.raises(CheckpointError, match="small are missing or damaged") as caught:
        load_model("small")
    assert "Install" in caught.value.remedy


def test_an_unknown_name_lists_those_there_are(shelf: Path) -> None:
    with pytest.raises(CheckpointError, match="'scav-huge'") as caught:
        load_model("scav-huge")
    assert "small" in caught.value.remedy


@pytest.mark.parametrize("name", list(NAMED))
def test_a_model_without_weights_says_how_to_train_it(shelf: Path, name: str) -> None:
    with pytest.raises(CheckpointError, match=f"ship for {name}.*small") as caught:
        load_model(name)
    assert f"soundwhere train --model {name}" in caught.value.remedy


def test_a_missing_file_is_called_missing(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"gone\.safetensors does not exist"):
        load_model(tmp_path / "gone.safetensors")
    with pytest.raises(CheckpointError, match=r"best\.safetensors does not exist"):
        load_model(tmp_path)
