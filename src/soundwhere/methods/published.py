"""Checkpoints that the authors of a method published, under the names they gave to its parts.

A network that can take them says in `published` which of its parts each beginning of a name stands for. Nothing is
skipped in silence: names that are unknown, missing or of another shape are listed, and the file is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import torch

from soundwhere.errors import CheckpointError, ConfigError, SoundwhereError
from soundwhere.methods.catalogue import METHODS, NAMES, is_named, named_config
from soundwhere.methods.files import build, read_facts, single
from soundwhere.models.encoders.weights import misfits, read_state

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from torch import Tensor

    from soundwhere.config import MethodConfig
    from soundwhere.methods.method import Network

DROPPED: Final = "-"
"""What stands in the place of a part that is read and not used, such as a classifier."""

_WRAPPERS: Final = ("model", "state_dict", "model_state_dict", "net")
_LISTED = 5


def read_published(name: str, path: Path, config: MethodConfig | None = None, *, download: bool = False) -> Network:
    """A network with the weights of a published checkpoint, in eval mode on the CPU.

    Args:
        name: The method, or one of its named configurations, such as `ez-vsl` or `ots-ave`.
        path: A file of torch, as the authors released it, or safetensors.
        config: Of the network; by default as published.
        download: Fetch weights that the file lacks, such as those of an object prior, if they are not on this machine.

    Raises:
        CheckpointError: The file cannot be read safely, or is not of this method.
    """
    published = named_config(name)
    config = config or published
    if config.family != published.family:
        raise ConfigError(
            f"A checkpoint of {name!r} was announced, but the configuration is of {config.family!r}.",
            f"Give the configuration of {name}, or the checkpoint of {config.family}.",
        )
    network = build(config)
    if not network.published:
        raise CheckpointError(
            f"The names in published checkpoints of {name!r} are not known.",
            "Train it, or give a file written by `soundwhere train`.",
        )
    tensors = read_tensors(path)
    try:
        load_published(network, tensors, str(path))
    except CheckpointError as error:
        others = fitting_methods(tensors)
        if not others:
            raise
        found = " or ".join(map(repr, others))
        raise CheckpointError(
            f"{error.message} Its names are those of {found}.", f"Give --checkpoint-of {others[0]}."
        ) from error
    network.complete(download)
    return network.eval()


def is_released(path: Path) -> bool:
    """Whether a file may be a checkpoint that authors released, because it is not a model of this package."""
    if not path.is_file():
        return False
    try:
        read_facts(path)
    except CheckpointError:
        return True
    return False


def fitting_methods(tensors: Mapping[str, Tensor]) -> list[str]:
    """The named methods in whose published checkpoints these tensors could be, by their names and shapes."""
    found = []
    for name in filter(is_named, (*METHODS, *NAMES)):
        try:
            with torch.device("meta"):
                network = build(named_config(name))
            if network.published:
                load_published(network, {key: tensor.to("meta") for key, tensor in tensors.items()}, "")
                found.append(name)
        except SoundwhereError:  # of another method, or one that cannot be built without its classes
            continue
    return found


def load_published(network: Network, tensors: Mapping[str, Tensor], where: str) -> None:
    """Load tensors under their published names into a network, all or none."""
    renamed, strange = rename(tensors, network.published)
    own = network.state_dict()
    problems = misfits(own, renamed, network.unpublished)
    if strange:
        problems = {**problems, "unknown": strange + problems.get("unknown", [])}
    if problems:
        theirs = {what: [published_name(name, network.published) for name in names] for what, names in problems.items()}
        found = "; ".join(f"{len(names)} {what}: {_some(names)}" for what, names in theirs.items())
        raise CheckpointError(
            f"{where} is not a published checkpoint of {network.config.name!r} ({found}).",
            "Check that file and method belong together; a file from another version of the code may have other names.",
        )
    network.load_state_dict(own | renamed)


def rename(tensors: Mapping[str, Tensor], table: Mapping[str, str]) -> tuple[dict[str, Tensor], list[str]]:
    """Tensors under the names of a network, and published names that no beginning in the table fits.

    The longest beginning counts; `module.` before a name, which several GPUs leave there, does not.

    >>> rename({"module.img_proj.bias": torch.zeros(1), "x": torch.zeros(1)}, {"img_proj.": "project."})[0].keys()
    dict_keys(['project.bias'])
    """
    renamed, unknown = {}, []
    for name, tensor in tensors.items():
        plain = name
        while plain.startswith("module."):
            plain = plain.removeprefix("module.")
        beginning = max((each for each in table if plain.startswith(each)), key=len, default=None)
        if beginning is None:
            unknown.append(plain)
        elif table[beginning] != DROPPED:
            renamed[table[beginning] + plain.removeprefix(beginning)] = tensor
    return renamed, unknown


def published_name(name: str, table: Mapping[str, str]) -> str:
    """What authors call a part of a network, which is how a user finds it in their file; without one, its own name.

    >>> published_name("project.bias", {"img_proj.": "project.", "fc.": "-"})
    'img_proj.bias'
    """
    fitting = [(ours, theirs) for theirs, ours in table.items() if ours != DROPPED and name.startswith(ours)]
    if not fitting:
        return name
    ours, theirs = max(fitting, key=lambda pair: len(pair[0]))
    return theirs + name.removeprefix(ours)


def read_tensors(path: Path) -> dict[str, Tensor]:
    """The named tensors in a file, wherever its authors put them; no pickle may run code."""
    if not path.is_file():
        found = "is a folder" if path.is_dir() else "does not exist"
        raise CheckpointError(f"{path} {found}.", "Give the checkpoint that the method's authors released.")
    return {name: single(tensor) for name, tensor in read_state(path, _WRAPPERS).items()}


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(names[:_LISTED]) + more


def two_stem_resnets(eye: str, ear: str) -> dict[str, str]:
    """Names of a ResNet-18 that has a first layer for either sense, of which it uses one, and an idle classifier.

    Args:
        eye: What stands before the names of the visual one.
        ear: The same for sound.
    """
    table = {eye: "visual.", ear: "audio.", f"{ear}conv1_a.": "audio.conv1."}
    idle = [
        f"{eye}conv1_a.",
        f"{ear}conv1.",
        *(f"{part}{name}" for part in (eye, ear) for name in ("conv1_flow.", "fc.")),
    ]
    return table | dict.fromkeys(idle, DROPPED)
