"""A model as a file: what is written comes back, and what is not a model is refused with a next step."""

from __future__ import annotations

import errno
import json
import resource
import stat
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch
from safetensors.torch import save_file

from soundwhere.errors import CheckpointError, OutputError, SoundwhereError
from soundwhere.methods.files import (
    load_weights,
    read_facts,
    read_model,
    read_tensors,
    sha256,
    start_from,
    write_model,
)
from soundwhere.methods.scav.model import SCAV

if TYPE_CHECKING:
    from soundwhere.methods.scav.config import SCAVConfig


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
        {"format": "soundwhere-1"},
        {"format": "soundwhere-1", "model": "{", "facts": "{}"},
        {"format": "soundwhere-1", "model": "[" * 9999, "facts": "{}"},
        {"format": "soundwhere-1", "model": "{}", "facts": "[" * 9999},
        {"format": "soundwhere-1", "model": "{}", "facts": "3"},
    ],
    ids=range(7),
)
def test_other_safetensors_files_are_refused(tmp_path: Path, metadata: dict[str, str] | None) -> None:
    path = tmp_path / "other.safetensors"
    save_file({"weight": torch.zeros(2)}, path, metadata)
    with pytest.raises(CheckpointError, match=r"other\.safetensors") as caught:
        read_model(path)
    assert "soundwhere train" in caught.value.remedy


def test_a_setting_of_another_version_is_named(tmp_path: Path) -> None:
    path = tmp_path / "newer.safetensors"
    settings = {"format": "soundwhere-1", "model": json.dumps({"colour": "red"}), "facts": "{}"}
    save_file({"weight": torch.zeros(2)}, path, settings)
    with pytest.raises(SoundwhereError, match=r"newer\.safetensors.*colour"):
        read_model(path)


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
