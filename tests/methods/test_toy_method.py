"""A method of a few lines goes everywhere SCAV goes: it trains, resumes, localises a clip, and is exported."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import torch

from soundwhere.cli.main import run as command_line
from soundwhere.config import Config, DataConfig, TrainConfig, to_dict
from soundwhere.errors import CheckpointError, ConfigError
from soundwhere.inference.localiser import Localiser
from soundwhere.methods.catalogue import METHODS, config_from, named_config
from soundwhere.methods.files import load_model, read_tensors, start_from
from soundwhere.training.run import train

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from types import ModuleType


@pytest.fixture(scope="module")
def toy(documented: Callable[[str], ModuleType]) -> Iterator[ModuleType]:
    """The method of docs/extending.md, in the catalogue as long as the tests run."""
    module = documented("toy.py")
    METHODS["toy"] = module.METHOD
    yield module
    del METHODS["toy"]


@pytest.fixture(scope="module")
def config(toy: ModuleType) -> Config:
    method = replace(named_config("toy"), steps=4, batch_size=4, learning_rate=1e-3)
    return Config(method, DataConfig(scenes=8), TrainConfig(device="cpu", checkpoint_every_s=0, log_every=1))


@pytest.fixture(scope="module")
def run(config: Config, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("toy")
    train(config, folder)
    return folder


def test_it_trains_and_is_loaded_as_itself(run: Path, toy: ModuleType) -> None:
    model = load_model(run)
    assert isinstance(model, toy.Toy)
    assert (model.sources, model.stride_px, model.config.name) == (1, 16, "toy")
    assert sorted(path.name for path in (run / "sheets").iterdir()) == ["stage-one-0001.png", "stage-one-0002.png"]


def test_it_resumes_to_the_same_weights(run: Path, config: Config, tmp_path: Path) -> None:
    half = replace(config, method=replace(config.method, steps=2))
    train(half, tmp_path / "halves")
    train(config, tmp_path / "halves", resume=True)
    whole, halves = (read_tensors(folder / "latest.safetensors", "model.") for folder in (run, tmp_path / "halves"))
    assert all(torch.equal(tensor, halves[name]) for name, tensor in whole.items())


def test_its_configuration_is_read_from_a_section(config: Config) -> None:
    assert config_from({"method": {"name": "toy", "steps": 7}}, "here").method == replace(named_config("toy"), steps=7)
    assert config_from(to_dict(config), "here") == config
    with pytest.raises(ConfigError, match="unknown setting 'teacher'"):
        config_from({"method": {"name": "toy", "teacher": "grow"}}, "here")


def test_it_is_scored_with_every_generic_control(run: Path, tmp_path: Path) -> None:
    command = ["evaluate", "--benchmark", "synthetic", "--count", "4", "--model", str(run), "--no-page"]
    assert command_line([*command, "--out", str(tmp_path)]) == 0
    results = json.loads((tmp_path / "results.json").read_text())
    own = {row.removeprefix(run.name) for row in results["rows"] if row.startswith(run.name)}
    assert own == {
        *("", ", audio-shuffled", ", silence", ", picture-shuffled", ", absent sound"),
        *(", one sound alone", ", sound of nothing seen"),
        ", feature norm",  # of its eye; SCAV's own controls (peel, solo sounds) are not asked of it
    }
    assert results["drops"][run.name]["cap"]["value"] == pytest.approx(
        results["scores"][run.name]["cap"]["value"] - results["scores"][f"{run.name}, audio-shuffled"]["cap"]["value"]
    )


def test_it_localises_a_clip(run: Path, clip_path: Path) -> None:
    result = Localiser(run, "cpu", fps=2).localise(clip_path)
    assert result.maps.shape[:2] == (4, 1)
    both = Localiser(run, "cpu", fps=2, sources=2).localise(clip_path)
    assert (both.maps[:, 0] == both.maps[:, 1]).all()  # one map, shown twice


def test_it_is_exported_and_answers_alike(run: Path, clip_path: Path, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    from soundwhere.inference.export import TOLERANCE, export_onnx

    exported = export_onnx(load_model(run), tmp_path / "toy.onnx", clip_path)
    assert max(exported.differences.values()) < TOLERANCE
    torch_maps = Localiser(run, "cpu", fps=2, smooth=False).localise(clip_path).maps
    onnx_maps = Localiser(tmp_path / "toy.onnx", "cpu", fps=2, smooth=False).localise(clip_path).maps
    assert abs(torch_maps - onnx_maps).max() < TOLERANCE


def test_its_folder_for_the_hub_comes_back(run: Path, toy: ModuleType, tmp_path: Path) -> None:
    model = load_model(run)
    model.save_pretrained(tmp_path)
    again = toy.Toy.from_pretrained(tmp_path)
    assert all(torch.equal(tensor, again.state_dict()[name]) for name, tensor in model.state_dict().items())


def test_models_of_another_method_are_refused_by_name(run: Path, toy: ModuleType, tmp_path: Path) -> None:
    from soundwhere.methods.scav.model import SCAV

    with pytest.raises(CheckpointError, match="'toy', but 'scav' is to be trained"):
        start_from(SCAV(named_config("scav-tiny")), run / "best.safetensors")
    load_model(run).save_pretrained(tmp_path)
    with pytest.raises(CheckpointError, match="'toy', which is not a SCAV"):
        SCAV.from_pretrained(tmp_path)
