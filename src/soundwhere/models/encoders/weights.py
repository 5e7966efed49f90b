"""Pretrained weights by name or path. Nothing is downloaded unless asked for, and no pickle may run code."""

from __future__ import annotations

import hashlib
import os
import urllib.request
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import torch
from safetensors.torch import load_file
from torch import Tensor

from soundwhere.errors import CheckpointError
from soundwhere.files import write_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import nn

WEIGHTS_FOLDER_VARIABLE: Final = "SOUNDWHERE_WEIGHTS"
BUILT_IN: Final = "built-in"
_SHIPPED: Final = {"mobilenet_v2": "scav-mobile", "tiny": "scav-tiny"}
_FOLDER: Final = Path(__file__).parents[2] / "weights"
_EYE: Final = "model.visual."


@dataclass(frozen=True)
class Pretrained:
    """A published weight file."""

    url: str
    sha256: str

    @property
    def file_name(self) -> str:
        """The last part of the URL."""
        return self.url.rpartition("/")[2]


# torchvision's IMAGENET1K_V1 weights (BSD-3)
IMAGENET: Final = {
    "resnet18": Pretrained(
        "https://download.pytorch.org/models/resnet18-f37072fd.pth",
        "f37072fd47e89c5e827621c5baffa7500819f7896bbacec160b1a16c560e07ec",
    ),
    "mobilenet_v2": Pretrained(
        "https://download.pytorch.org/models/mobilenet_v2-b0353104.pth",
        "b03531047ffacf1e2488318dcd2aba1126cde36e3bfe1aa5cb07700aeeee9889",
    ),
}


def load_weights(encoder: nn.Module, architecture: str, weights: str, *, download: bool = False) -> None:
    """Load weights into an encoder, in place.

    Args:
        encoder: The encoder to fill.
        architecture: Its name, such as `resnet18`.
        weights: `imagenet`, the path of a .pth or .safetensors file, `built-in` for the eye of a model in the package
            (ImageNet's, rounded to half precision, or for `tiny` one that knows the made-up world), or `none` to leave
            the encoder as it is.
        download: Fetch `imagenet` weights that are not on this machine.

    Raises:
        CheckpointError: The weights are missing, damaged, or of another model.
    """
    if weights == "none":
        return
    if weights == BUILT_IN:
        fill(encoder, *_built_in(architecture))
        return
    path = find_imagenet(architecture, download=download) if weights == "imagenet" else Path(weights)
    fill(encoder, read_weights(path), path)


def find_imagenet(architecture: str, *, download: bool = False) -> Path:
    """Where an architecture's ImageNet weights are: torch hub's cache, else the folder `SOUNDWHERE_WEIGHTS` names."""
    if architecture not in IMAGENET:
        raise CheckpointError(
            f"There are no ImageNet weights for {architecture!r}, only for {', '.join(IMAGENET)}.",
            "Set its weights (--visual-weights, --audio-weights) to none, or to the path of a weight file.",
        )
    pretrained, folders = IMAGENET[architecture], weight_folders()
    if (found := find_weights(pretrained.file_name)) is not None:
        return found
    if download:
        return _download(pretrained, folders[0])
    raise CheckpointError(
        f"{pretrained.file_name} is not in {' or '.join(map(str, folders))}.",
        f"Give --download, or download {pretrained.url} into {folders[0]} or into a folder that the environment "
        f"variable {WEIGHTS_FOLDER_VARIABLE} names.",
    )


def weight_folders() -> list[Path]:
    """Where published weights are looked for: torch hub's cache, then the folder `SOUNDWHERE_WEIGHTS` names."""
    named = os.environ.get(WEIGHTS_FOLDER_VARIABLE)
    return [Path(torch.hub.get_dir()) / "checkpoints", *([Path(named)] if named else [])]


def find_weights(name: str) -> Path | None:
    """A file of published weights by its name, in the first of the folders that has it."""
    return next((folder / name for folder in weight_folders() if (folder / name).is_file()), None)


def _built_in(architecture: str) -> tuple[dict[str, Tensor], Path]:
    """The eye of the model in the package that has this encoder, and the file it is in."""
    if architecture not in _SHIPPED:
        raise CheckpointError(
            f"The package has no weights for {architecture!r}, only for {', '.join(_SHIPPED)}.",
            "Set its weights to imagenet, none, or the path of a weight file.",
        )
    path = _FOLDER / f"{_SHIPPED[architecture]}.safetensors"
    tensors = read_weights(path)
    own = {name.removeprefix(_EYE): value for name, value in tensors.items() if name.startswith(_EYE)}
    return {name: value.float() if value.dtype == torch.float16 else value for name, value in own.items()}, path


def read_weights(path: Path) -> dict[str, Tensor]:
    """Read a .pth or .safetensors file onto the CPU; files with a published sha256 are checked against it."""
    if not path.is_file():
        raise CheckpointError(
            f"There is no weight file {path}.",
            "Give imagenet, built-in, none, or the path of a .pth or .safetensors file.",
        )
    for pretrained in IMAGENET.values():
        if path.name == pretrained.file_name:
            _check(path.read_bytes(), pretrained, str(path))
    return read_state(path)


def read_state(path: Path, wrappers: tuple[str, ...] = ()) -> dict[str, Tensor]:
    """The named tensors of a .pth or .safetensors file, which may lie within wrappers of these names, on the CPU."""
    try:
        if path.suffix == ".safetensors":
            values: Any = load_file(path)
        else:
            values = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # damaged pickles and archives raise almost anything
        raise CheckpointError(
            f"{path} cannot be read safely ({type(error).__name__}).",
            "It may be cut short, of another kind, or hold more than tensors: fetch it again, or save the state dict "
            "alone as .safetensors.",
        ) from error
    while isinstance(values, dict) and (inner := next((key for key in wrappers if key in values), None)):
        values = values[inner]
    if not isinstance(values, dict) or not all(isinstance(value, Tensor) for value in values.values()):
        raise CheckpointError(
            f"{path} holds something other than named tensors.", "Save the state dict, and nothing else."
        )
    return {str(name): value for name, value in values.items()}


def fill(encoder: nn.Module, weights: dict[str, Tensor], where: Path) -> None:
    """Load a state dict whose every name and shape must fit.

    A classifier, which encoders lack, is left out. For an encoder of spectrograms, which have one channel, the filters
    of a picture's three channels are added up: they then see a grey picture.
    """
    classifier: frozenset[str] = getattr(encoder, "classifier_names", frozenset())
    weights = {name: value for name, value in weights.items() if name not in classifier}
    own = encoder.state_dict()
    stem = next(iter(own))
    if stem in weights and weights[stem].ndim == 4 and own[stem].shape[1] == 1:
        weights[stem] = weights[stem].sum(1, keepdim=True)
    if problems := misfits(own, weights):
        found = "; ".join(f"{len(names)} {what}, such as {names[0]}" for what, names in problems.items())
        raise CheckpointError(
            f"{where} does not fit {type(encoder).__name__} ({found}).", "Give the weights of this architecture."
        )
    encoder.load_state_dict(own | weights)


def misfits(
    own: Mapping[str, Tensor], given: Mapping[str, Tensor], absent: tuple[str, ...] = ()
) -> dict[str, list[str]]:
    """Names that keep tensors from filling a state dict, by what is wrong; those that begin with `absent` may lack."""
    # torch itself accepts files from before BatchNorm counted its batches
    needed = (name for name in own if not name.endswith("num_batches_tracked") and not name.startswith(absent))
    problems = {
        "unknown": [name for name in given if name not in own],
        "missing": [name for name in needed if name not in given],
        "of another shape": [
            f"{name} {tuple(tensor.shape)} instead of {tuple(own[name].shape)}"
            for name, tensor in given.items()
            if name in own and tensor.shape != own[name].shape
        ],
    }
    return {what: names for what, names in problems.items() if names}


def _download(pretrained: Pretrained, folder: Path) -> Path:
    try:
        with urllib.request.urlopen(pretrained.url, timeout=30) as response:
            content: bytes = response.read()
    except (OSError, HTTPException) as error:
        raise CheckpointError(
            f"{pretrained.url} cannot be downloaded: {error}.",
            f"Try again, or fetch it on another machine and put it into {folder}.",
        ) from error
    _check(content, pretrained, pretrained.url)
    write_bytes(folder / pretrained.file_name, content)
    return folder / pretrained.file_name


def _check(content: bytes, pretrained: Pretrained, where: str) -> None:
    found = hashlib.sha256(content).hexdigest()
    if found != pretrained.sha256:
        raise CheckpointError(
            f"{where} is damaged: its sha256 is {found[:8]}..., not {pretrained.sha256[:8]}....",
            f"Delete it and download {pretrained.url} again.",
        )
