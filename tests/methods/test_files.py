"""A model as a file: what is written comes back, and what is not a model is refused with a next step."""

from __future__ import annotations

import errno
import json
import resource
import stat
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from soundwhere.config import Thresholds, to_dict
from soundwhere.errors import CheckpointError, ConfigError, OutputError, SoundwhereError
from soundwhere.files import sha256
from soundwhere.methods import files as module
from soundwhere.methods.files import (
    WEIGHTS,
    load_model,
    load_weights,
    model_file,
    read_facts,
    read_model,
    read_tensors,
    start_from,
    write_model,
)
from soundwhere.methods.scav.config import NAMED, SCAVConfig
from soundwhere.methods.scav.model import SCAV


@pytest.fixture
def model(tiny: SCAVConfig) -> SCAV:
    torch.manual_seed(0)
    return SCAV(tiny)


@pytest.fixture
def file(tmp_path: Path, model: SCAV) -> Path:
    path = tmp_path / "model.safetensors"
    write_model(path, model, facts={"licence": "CC0"}, extra={"optimiser.step": torch.tensor(3.0)})
    return path


def same(one: torch.nn.Module, other: torch.nn.Module) -> bool:
    pairs = zip(one.state_dict().items(), other.state_dict().items(), strict=True)
    return all(a == b and torch.equal(x, y) for (a, x), (b, y) in pairs)


def test_round_trip(model: SCAV, file: Path) -> None:
    again = read_model(file)
    assert same(model, again)
    assert again.config == model.config
    assert not any(module.training for module in again.modules())
    config, facts = read_facts(file)
    assert config == model.config
    assert facts == {"licence": "CC0"}
    assert read_tensors(file, "optimiser.") == {"step": torch.tensor(3.0)}
    with safe_open(file, framework="pt") as opened:
        metadata = opened.metadata()
    assert metadata["format"] == "soundwhere-2"
    assert json.loads(metadata["method"])["family"] == "scav"


def test_half_precision_is_half_the_size_and_comes_back_single(model: SCAV, file: Path, tmp_path: Path) -> None:
    half = tmp_path / "half.safetensors"
    write_model(half, model, half=True)
    assert half.stat().st_size < 0.55 * file.stat().st_size
    again = read_model(half)
    for name, tensor in again.state_dict().items():
        assert tensor.dtype == model.state_dict()[name].dtype
        torch.testing.assert_close(tensor, model.state_dict()[name], rtol=1e-3, atol=1e-4)


def test_others_may_read_what_is_written(file: Path) -> None:
    plain = file.with_name("plain")
    plain.touch()
    assert stat.S_IMODE(file.stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)


def test_sha256_of_known_content(tmp_path: Path) -> None:
    (tmp_path / "abc").write_bytes(b"abc")
    assert sha256(tmp_path / "abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


def content(path: Path) -> dict[str, bytes]:
    whole = path.read_bytes()
    return {
        "text": b"these are no weights, but a letter\n" * 20,
        "empty": b"",
        "truncated": whole[: len(whole) // 2],
        "without its last byte": whole[:-1],
        "header only": whole[:40],
    }


@pytest.mark.parametrize("kind", ["text", "empty", "truncated", "without its last byte", "header only"])
def test_damaged_files_are_refused(file: Path, kind: str) -> None:
    bad = file.with_name("bad.safetensors")
    bad.write_bytes(content(file)[kind])
    for read in (read_model, read_facts):
        with pytest.raises(CheckpointError, match=r"bad\.safetensors") as caught:
            read(bad)
        assert "soundwhere train" in caught.value.remedy


def test_missing_files_and_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="does not exist"):
        read_model(tmp_path / "none.safetensors")
    with pytest.raises(CheckpointError, match="is a folder"):
        read_model(tmp_path)


@pytest.mark.parametrize(
    "metadata",
    [
        None,
        {"format": "pt"},
        {"format": "soundwhere-3", "method": "{}", "facts": "{}"},
        *({"format": f"soundwhere-{number}"} for number in (1, 2)),
        {"format": "soundwhere-1", "model": "{", "facts": "{}"},
        {"format": "soundwhere-1", "model": "[" * 9999, "facts": "{}"},
        {"format": "soundwhere-2", "method": "{", "facts": "{}"},
        {"format": "soundwhere-2", "method": "{}", "facts": "["},
        {"format": "soundwhere-2", "method": "{}", "facts": "[" * 9999},
        {"format": "soundwhere-2", "method": "{}", "facts": "3"},
    ],
    ids=range(11),
)
def test_other_safetensors_files_are_refused(tmp_path: Path, metadata: dict[str, str] | None) -> None:
    path = tmp_path / "other.safetensors"
    save_file({"weight": torch.zeros(2)}, path, metadata)
    with pytest.raises(CheckpointError, match=r"other\.safetensors") as caught:
        read_model(path)
    assert "soundwhere train" in caught.value.remedy


@pytest.mark.parametrize(("number", "key"), [(1, "model"), (2, "method")])
def test_a_setting_of_another_version_is_named(tmp_path: Path, number: int, key: str) -> None:
    path = tmp_path / "newer.safetensors"
    settings = {"format": f"soundwhere-{number}", key: json.dumps({"colour": "red"}), "facts": "{}"}
    save_file({"weight": torch.zeros(2)}, path, settings)
    with pytest.raises(SoundwhereError, match=r"newer\.safetensors.*colour"):
        read_model(path)


@pytest.mark.parametrize(("number", "key"), [(1, "model"), (2, "method")])
def test_settings_that_are_none_are_named(tmp_path: Path, number: int, key: str) -> None:
    path = tmp_path / "list.safetensors"
    save_file({"weight": torch.zeros(2)}, path, {"format": f"soundwhere-{number}", key: "[3]", "facts": "{}"})
    with pytest.raises(ConfigError, match=r"list\.safetensors holds no settings, but \[3\]"):
        read_model(path)


def test_a_method_of_another_version_is_named(tmp_path: Path) -> None:
    path = tmp_path / "newer.safetensors"
    settings = {"format": "soundwhere-2", "method": json.dumps({"family": "psychic"}), "facts": "{}"}
    save_file({"weight": torch.zeros(2)}, path, settings)
    with pytest.raises(ConfigError, match=r"newer\.safetensors.*'psychic'") as caught:
        read_model(path)
    assert "scav" in caught.value.remedy


def test_another_architecture_is_refused(file: Path, tiny: SCAVConfig) -> None:
    for other in (replace(tiny, dimension=32), replace(tiny, share_decoupler=False), replace(tiny, decouple=False)):
        with pytest.raises(CheckpointError, match=r"does not fit.*tensors differ"):
            load_weights(SCAV(other), file)


def test_starting_takes_stage_one_and_as_much_of_stage_two_as_there_is(model: SCAV, tmp_path: Path) -> None:
    whole, alone = tmp_path / "whole.safetensors", tmp_path / "alone.safetensors"
    write_model(whole, model)
    write_model(alone, model.without_stage_two())
    torch.manual_seed(1)
    again, fresh = SCAV(model.config), SCAV(model.config)
    start_from(again, whole)
    assert same(again, model)
    start_from(fresh, alone)
    assert same(fresh.audio, model.audio)
    assert same(fresh.visual, model.visual)
    assert not same(fresh.project_audio, model.project_audio)


def test_starting_fills_the_second_audio_encoder(model: SCAV, file: Path, tmp_path: Path) -> None:
    torch.manual_seed(1)
    fuller = SCAV(replace(model.config, second_audio_encoder=True))
    start_from(fuller, file)
    assert same(fuller.project_audio, model.project_audio)
    assert fuller.second_audio is not None
    assert same(fuller.second_audio, model.audio)
    # and one that was trained is kept
    with torch.no_grad():
        next(fuller.second_audio.parameters()).add_(1)
    write_model(tmp_path / "trained.safetensors", fuller)
    again = SCAV(fuller.config)
    start_from(again, tmp_path / "trained.safetensors")
    assert same(again, fuller)


def test_starting_from_another_architecture_is_refused(file: Path, tiny: SCAVConfig) -> None:
    with pytest.raises(CheckpointError, match="another architecture") as caught:
        start_from(SCAV(replace(tiny, dimension=32)), file)
    assert "--model" in caught.value.remedy


def test_a_disk_that_is_too_small_leaves_the_old_file(model: SCAV, file: Path) -> None:
    before = file.read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, hard))
    try:
        with pytest.raises(OutputError, match=r"model\.safetensors cannot be written: File too large") as caught:
            write_model(file, model)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert "--out" in caught.value.remedy
    assert file.read_bytes() == before
    assert list(file.parent.iterdir()) == [file]


def test_a_full_disk_says_to_free_some_space(model: SCAV, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, data: bytes) -> int:
        with path.open("wb") as out:
            out.write(data[:100])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OutputError, match="No space left") as caught:
        write_model(tmp_path / "model.safetensors", model)
    assert "Free some space" in caught.value.remedy
    assert not list(tmp_path.iterdir())


def test_a_file_where_a_folder_should_be(model: SCAV, tmp_path: Path) -> None:
    (tmp_path / "run").touch()
    with pytest.raises(OutputError, match="cannot be written") as caught:
        write_model(tmp_path / "run" / "model.safetensors", model)
    assert "--out" in caught.value.remedy


# By name


@pytest.fixture
def shelf(tmp_path: Path, tiny: SCAVConfig, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package that ships weights under the name `small`."""
    path = tmp_path / "small.safetensors"
    write_model(path, SCAV(tiny), half=True)
    monkeypatch.setattr(module, "WEIGHTS", tmp_path)
    monkeypatch.setattr(module, "SHIPPED", {"small": sha256(path)})
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


@pytest.mark.parametrize("name", ["scav-mobile", "scav-tiny"])
def test_what_shipped_first_is_of_the_first_format_and_is_read(name: str) -> None:
    with safe_open(WEIGHTS / f"{name}.safetensors", framework="pt") as file:
        metadata = file.metadata()
    assert metadata["format"] == "soundwhere-1"
    stored = json.loads(metadata["model"])
    model = load_model(name)
    assert isinstance(model, SCAV)
    assert model.config.name == name
    assert {key: to_dict(model.config)[key] for key in stored} == stored


# The first format: one method, whose losses and schedule were not part of the model

# What a file of the first format says of a model, as version 0.1 wrote it
FORMAT_1 = {
    "name": "scav-mobile",
    "visual": "tiny",
    "audio": "tiny",
    "visual_weights": "none",
    "audio_weights": "none",
    "freeze_visual": False,
    "fine_grid": False,
    "frame_px": 32,
    "spectrogram": "paper",
    "pooling": "max",
    "similarity": "cosine",
    "thresholds": {"positive": 0.6, "negative": 0.3, "temperature": 0.03},
    "prior": "algorithm1",
    "prior_features": "normalised",
    "dimension": 16,
    "decoupler_layers": 1,
    "decoupler_heads": 2,
    "share_decoupler": True,
    "maps": "presence",
    "sounding_threshold": 0.55,
    "decouple": True,
    "second_audio_encoder": False,
}


def test_a_file_of_the_first_format(tiny: SCAVConfig, model: SCAV, tmp_path: Path) -> None:
    path = tmp_path / "old.safetensors"
    tensors = {f"model.{name}": tensor.contiguous() for name, tensor in model.state_dict().items()}
    about = {"format": "soundwhere-1", "model": json.dumps(FORMAT_1), "facts": json.dumps({"licence": "CC0"})}
    save_file(tensors, path, about)
    config, facts = read_facts(path)
    thresholds = Thresholds(positive=0.6, negative=0.3, temperature=0.03)
    assert config == replace(
        SCAVConfig(), **{name: getattr(tiny, name) for name in ("visual", "audio", "frame_px", "dimension")},
        name="scav-mobile", visual_weights="none", freeze_visual=False, pooling="max", thresholds=thresholds,
        decoupler_layers=1, decoupler_heads=2, maps="presence", sounding_threshold=0.55,
    )  # fmt: skip
    assert facts == {"licence": "CC0"}
    again = load_model(path)
    assert same(again, model)
    assert again.config == config
    write_model(tmp_path / "new.safetensors", again)  # today's format holds the same
    assert read_facts(tmp_path / "new.safetensors")[0] == config
    started = SCAV(config)
    start_from(started, path)
    assert same(started, model)


def test_what_an_old_file_leaves_out_has_the_default_of_the_method(model: SCAV, tmp_path: Path) -> None:
    """Even if its name stands for something else today."""
    path = tmp_path / "old.safetensors"
    kept = {name: value for name, value in FORMAT_1.items() if name not in ("maps", "pooling", "thresholds")}
    save_file({"weight": torch.zeros(1)}, path, {"format": "soundwhere-1", "model": json.dumps(kept), "facts": "{}"})
    config, _ = read_facts(path)
    assert isinstance(config, SCAVConfig)
    assert config.name == "scav-mobile"
    assert (config.maps, config.pooling, config.thresholds) == ("similarity", "average", Thresholds())
    assert NAMED["scav-mobile"].maps == "shaped"
