"""Checkpoints under the names their authors gave: read whole, or refused with a list of what is wrong."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import torch
from safetensors.torch import save_file

from soundwhere.errors import CheckpointError, ConfigError
from soundwhere.methods.attention10k import Attention10kConfig
from soundwhere.methods.catalogue import named_config
from soundwhere.methods.files import build, write_model
from soundwhere.methods.published import DROPPED, is_released, published_name, read_published, rename

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from torch import Tensor

    from soundwhere.methods.method import Network

RESNETS = ("lvs", "ez-vsl", "slavc", "fnac", "ssl-tie", "attention10k", "dmc")
PLAIN = ("ots", "ots-ave")

# recordings whose weights have names of checkpoints, and the network that takes them
RECORDED = {
    "ez_vsl": "ez-vsl",
    "slavc": "slavc",
    "fnac": "fnac",
    "attention_rewrite": "attention10k",
    "ots_avenet": "ots-ave",
    "ots_avolnet": "ots",
    "dmc": "dmc",
}


def small(name: str) -> Any:
    """As published, but for a narrow space to compare in and no object prior, whose weights are not at hand."""
    config: Any = replace(named_config(name), dimension=8)
    return replace(config, maps="avl") if hasattr(config, "maps") else config


def as_published(network: Network) -> dict[str, Tensor]:
    """The weights of a network under their published names, with a few that nobody needs."""
    tensors = {}
    for name, tensor in network.state_dict().items():
        if name.startswith(network.unpublished):
            continue
        fitting = [(ours, theirs) for theirs, ours in network.published.items() if name.startswith(ours)]
        ours, theirs = max(fitting, key=lambda pair: len(pair[0]))
        tensors[theirs + name.removeprefix(ours)] = tensor
    return tensors | {f"{name}weight": torch.zeros(2) for name, ours in network.published.items() if ours == DROPPED}


@pytest.fixture(scope="module")
def ez_vsl() -> Network:
    torch.manual_seed(0)
    return build(small("ez-vsl"))


@pytest.mark.parametrize("name", [*RESNETS, *PLAIN])
def test_a_released_file_is_read_as_it_is(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    network = build(small(name))
    tensors = {f"module.{key}": tensor for key, tensor in as_published(network).items()}
    torch.save({"model": tensors, "epoch": 20}, tmp_path / "released.pth")
    again = read_published(network.config.family, tmp_path / "released.pth", small(name))
    assert not again.training
    for key, tensor in network.state_dict().items():
        assert torch.equal(tensor, again.state_dict()[key]) or key.startswith(network.unpublished), key


@pytest.mark.parametrize("recording", RECORDED)
def test_recorded_names_are_known(oracle: Callable[[str], Any], recording: str) -> None:
    network = build(small(RECORDED[recording]))
    renamed, unknown = rename(oracle(recording).weights(), network.published)
    assert unknown == []
    assert renamed
    assert set(renamed) <= set(network.state_dict())


def test_unknown_missing_and_misshapen_names_are_listed(ez_vsl: Network, tmp_path: Path) -> None:
    tensors = as_published(ez_vsl)
    tensors["img_proj.weight"] = torch.zeros(3, 3)
    tensors["flow.weight"] = torch.zeros(3)
    del tensors["aud_proj.bias"]
    torch.save(tensors, tmp_path / "odd.pth")
    with pytest.raises(CheckpointError) as caught:
        read_published("ez-vsl", tmp_path / "odd.pth", small("ez-vsl"))
    message = caught.value.message
    assert "1 unknown: flow.weight" in message
    assert "1 missing: aud_proj.bias" in message
    assert "1 of another shape: img_proj.weight (3, 3) instead of (8, 512, 1, 1)" in message


@pytest.mark.parametrize("name", [*RESNETS, *PLAIN])
def test_what_is_wrong_is_listed_under_the_names_in_the_file(name: str) -> None:
    """Those of the package are not in the user's file."""
    network = build(small(name))
    for theirs, tensor in as_published(network).items():
        renamed, _ = rename({theirs: tensor}, network.published)
        assert [published_name(own, network.published) for own in renamed] in ([theirs], [])


def test_a_file_of_another_method_is_refused(ez_vsl: Network, tmp_path: Path) -> None:
    torch.save(as_published(ez_vsl), tmp_path / "ezvsl.pth")
    with pytest.raises(CheckpointError, match="not a published checkpoint of 'slavc'"):
        read_published("slavc", tmp_path / "ezvsl.pth", small("slavc"))
    with pytest.raises(ConfigError, match="'slavc' was announced, but the configuration is of 'ez-vsl'"):
        read_published("slavc", tmp_path / "ezvsl.pth", small("ez-vsl"))


def test_the_method_that_a_file_belongs_to_is_named(tmp_path: Path) -> None:
    torch.manual_seed(0)
    torch.save(as_published(build(named_config("ots"))), tmp_path / "avol.pth")
    with pytest.raises(CheckpointError, match="not a published checkpoint of 'lvs'") as caught:
        read_published("lvs", tmp_path / "avol.pth")
    assert caught.value.message.endswith("Its names are those of 'ots'.")
    assert caught.value.remedy == "Give --checkpoint-of ots."


def test_files_of_this_package_are_told_from_released_ones(ez_vsl: Network, tmp_path: Path) -> None:
    write_model(tmp_path / "ours.safetensors", ez_vsl)
    torch.save({}, tmp_path / "theirs.pth")
    save_file(as_published(ez_vsl), tmp_path / "theirs.safetensors")
    assert not is_released(tmp_path / "ours.safetensors")
    assert is_released(tmp_path / "theirs.pth")
    assert is_released(tmp_path / "theirs.safetensors")
    assert not is_released(tmp_path)
    assert not is_released(tmp_path / "gone.pth")


def test_a_method_whose_names_are_not_known_is_refused(tmp_path: Path) -> None:
    config = replace(named_config("attention10k-original"), visual="tiny", audio="tiny")
    assert isinstance(config, Attention10kConfig)
    with pytest.raises(CheckpointError, match="names in published checkpoints of 'attention10k-original' are not"):
        read_published("attention10k-original", tmp_path / "x.pth", config)


def test_files_that_are_none_are_refused(tmp_path: Path) -> None:
    config = small("ez-vsl")
    with pytest.raises(CheckpointError, match="does not exist"):
        read_published("ez-vsl", tmp_path / "gone.pth", config)
    (tmp_path / "text.pth").write_text("no weights")
    with pytest.raises(CheckpointError, match="cannot be read safely"):
        read_published("ez-vsl", tmp_path / "text.pth", config)
    torch.save([1, 2], tmp_path / "list.pth")
    with pytest.raises(CheckpointError, match="something other than named tensors"):
        read_published("ez-vsl", tmp_path / "list.pth", config)


def test_no_pickle_runs_code(tmp_path: Path) -> None:
    import os
    import pickle

    class Evil:
        def __reduce__(self) -> Any:
            return os.mkdir, (str(tmp_path / "done"),)

    (tmp_path / "evil.pth").write_bytes(pickle.dumps(Evil()))
    with pytest.raises(CheckpointError, match="cannot be read safely"):
        read_published("ez-vsl", tmp_path / "evil.pth", small("ez-vsl"))
    assert not (tmp_path / "done").exists()
