from __future__ import annotations

import json
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import huggingface_hub
import pytest
import torch
from safetensors.torch import load_file, save_file

from soundwhere.config import Thresholds
from soundwhere.errors import CheckpointError, ConfigError, MissingExtraError
from soundwhere.methods.catalogue import named_config
from soundwhere.methods.files import load_model
from soundwhere.methods.scav.config import SCAVConfig
from soundwhere.methods.scav.model import SCAV

if TYPE_CHECKING:
    from pathlib import Path

    from soundwhere.methods.scav.config import SCAVConfig


@pytest.fixture
def settings() -> SCAVConfig:
    return replace(
        named_config("scav-tiny"),
        dimension=16,
        decoupler_layers=1,
        decoupler_heads=2,
        second_audio_encoder=True,
        thresholds=Thresholds(positive=0.6),
    )


@pytest.fixture
def model(settings: SCAVConfig) -> SCAV:
    torch.manual_seed(3)
    return SCAV(settings)


def test_round_trip(model: SCAV, tmp_path: Path) -> None:
    folder = model.save_pretrained(tmp_path / "mine")
    assert sorted(path.name for path in folder.iterdir()) == ["config.json", "model.safetensors"]
    loaded = SCAV.from_pretrained(str(folder))
    assert loaded.config == model.config
    assert not loaded.training
    image, sound = torch.randn(2, 3, 64, 64), torch.randn(2, 6000)
    with torch.no_grad():
        one, other = (vars(asked(image, asked.spectrogram(sound))) for asked in (loaded, model.eval()))
    torch.testing.assert_close(one, other, rtol=0, atol=0)
    torch.testing.assert_close(load_model(folder).state_dict(), model.state_dict(), rtol=0, atol=0)


def test_the_files_are_those_of_the_hub(model: SCAV, tmp_path: Path) -> None:
    """Plain names of the module's tensors, and a configuration from which the class is built."""
    model.save_pretrained(tmp_path)
    model.save_pretrained(tmp_path)  # again, over the first
    assert set(load_file(tmp_path / "model.safetensors")) == set(model.state_dict())
    assert json.loads((tmp_path / "config.json").read_text())["config"]["thresholds"]["positive"] == 0.6


def test_half_precision_is_loaded_as_single(model: SCAV, tmp_path: Path) -> None:
    model.save_pretrained(tmp_path)
    halved = {k: v.half() if v.is_floating_point() else v for k, v in load_file(tmp_path / "model.safetensors").items()}
    save_file(halved, tmp_path / "model.safetensors")
    assert {p.dtype for p in SCAV.from_pretrained(tmp_path).parameters()} == {torch.float32}


def test_the_network_is_asked_only_on_request(model: SCAV, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def fetch(name: str, allow_patterns: list[str]) -> str:
        asked.append(name)
        return str(model.save_pretrained(tmp_path / "fetched"))

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fetch)
    with pytest.raises(CheckpointError, match="is not a folder"):
        SCAV.from_pretrained("someone/scav")
    assert asked == []
    assert SCAV.from_pretrained("someone/scav", download=True).config == model.config
    assert asked == ["someone/scav"]


def test_without_the_hub_s_package_its_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(MissingExtraError, match=r"huggingface_hub is not installed") as caught:
        SCAV.from_pretrained("someone/scav", download=True)
    assert "soundwhere[hub]" in caught.value.remedy


def test_a_failed_download_is_readable(monkeypatch: pytest.MonkeyPatch) -> None:
    def fetch(name: str, allow_patterns: list[str]) -> str:
        raise ConnectionError("no route")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fetch)
    with pytest.raises(CheckpointError, match="could not be fetched"):
        SCAV.from_pretrained("someone/scav", download=True)


def test_damaged_folders_are_named(model: SCAV, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="does not describe a soundwhere model"):
        SCAV.from_pretrained(tmp_path)
    model.save_pretrained(tmp_path)
    settings = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({"config": {**settings["config"], "dimension": 24}}))
    with pytest.raises(CheckpointError, match="does not hold the weights"):
        SCAV.from_pretrained(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"config": {"colour": "blue"}}))
    with pytest.raises(ConfigError, match="unknown setting 'colour'"):
        SCAV.from_pretrained(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"architectures": ["Other"]}))
    with pytest.raises(CheckpointError, match="KeyError"):
        SCAV.from_pretrained(tmp_path)
    (tmp_path / "config.json").write_text("[" * 9999)
    with pytest.raises(CheckpointError, match="nested too deeply"):
        SCAV.from_pretrained(tmp_path)
    (tmp_path / "config.json").write_text('{"config": 3}')
    with pytest.raises(ConfigError, match="holds no settings, but 3"):
        SCAV.from_pretrained(tmp_path)
    model.save_pretrained(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"cut")
    with pytest.raises(CheckpointError, match="does not hold the weights"):
        SCAV.from_pretrained(tmp_path)


def test_a_folder_of_the_first_format(model: SCAV, tmp_path: Path) -> None:
    """Which had neither a method's name nor anything on how it was trained."""
    model.save_pretrained(tmp_path)
    settings = json.loads((tmp_path / "config.json").read_text())
    old = {name: value for name, value in settings["config"].items() if name not in {"family", *model.config.training}}
    assert len(old) < len(settings["config"]) - 10
    (tmp_path / "config.json").write_text(json.dumps({**settings, "config": old}))
    for again in (SCAV.from_pretrained(tmp_path), load_model(tmp_path)):
        assert again.config == model.config
        torch.testing.assert_close(again.state_dict(), model.state_dict(), rtol=0, atol=0)


def test_a_class_loads_only_its_own(model: SCAV, tmp_path: Path) -> None:
    class Other(SCAV):
        """What a folder never is."""

    model.save_pretrained(tmp_path)
    with pytest.raises(CheckpointError, match="method 'scav', which is not a Other") as caught:
        Other.from_pretrained(tmp_path)
    assert "load_model" in caught.value.remedy
