"""A model as one file: safetensors with its configuration inside. Nothing is ever unpickled."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from soundwhere.config import ModelConfig, from_dict, to_dict
from soundwhere.errors import CheckpointError
from soundwhere.files import atomic_path, parse_json
from soundwhere.models.hub import single
from soundwhere.models.scav import SCAV

if TYPE_CHECKING:
    from pathlib import Path

    from torch import Tensor, nn

FORMAT = "soundwhere-1"
MODEL_PREFIX = "model."


def write_model(
    path: Path,
    model: SCAV,
    *,
    extra: dict[str, Tensor] | None = None,
    facts: dict[str, Any] | None = None,
    half: bool = False,
) -> None:
    """Write a model, its configuration, and whatever stands beside it, atomically.

    Args:
        path: The file, ending in `.safetensors`.
        model: Its weights are stored under `model.`.
        extra: Further tensors, such as the optimiser's; their names must not start with `model.`.
        facts: JSON values kept with the file: training state, licence, data, scores.
        half: Store floating-point weights in half precision, as shipped files do.
    """
    tensors = {f"{MODEL_PREFIX}{name}": tensor for name, tensor in model.state_dict().items()}
    if half:
        tensors = {name: tensor.half() if tensor.is_floating_point() else tensor for name, tensor in tensors.items()}
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in {**tensors, **(extra or {})}.items()}
    metadata = {"format": FORMAT, "model": json.dumps(to_dict(model.config)), "facts": json.dumps(facts or {})}
    # not save_file: it makes files only their owner may read, hides the operating system's error and, killed, leaves
    # its own temporary file behind
    content = save(tensors, metadata)
    with atomic_path(path) as temporary:
        temporary.write_bytes(content)


def read_facts(path: Path) -> tuple[ModelConfig, dict[str, Any]]:
    """The configuration and the facts stored in a model file, without its tensors."""
    with _open(path) as file:
        metadata = file.metadata() or {}
    if metadata.get("format") != FORMAT:
        raise CheckpointError(
            f"{path} is a safetensors file, but not a soundwhere model (format {metadata.get('format')!r}).",
            "Give a file written by `soundwhere train`, such as runs/NAME/best.safetensors.",
        )
    try:
        settings = parse_json(metadata["model"])
        facts = dict(json.loads(metadata["facts"]))  # a loss among them may be NaN
    except (KeyError, ValueError, TypeError, RecursionError) as error:
        raise CheckpointError(
            f"{path} holds no readable configuration ({error}).", "Give a file written by `soundwhere train`."
        ) from error
    return from_dict(ModelConfig, settings, str(path)), facts


def read_model(path: Path) -> SCAV:
    """Load a model in eval mode, in single precision, on the CPU."""
    config, _ = read_facts(path)
    model = SCAV(config)
    load_weights(model, path)
    return model.eval()


def start_from(model: SCAV, path: Path) -> None:
    """Begin a training from a file: all of its stage 1, and as much of stage 2 as both have."""
    source = read_model(path)
    for mine, theirs in zip(model.stage_one, source.stage_one, strict=True):
        _copy(mine, theirs, path)
    model.begin_stage_two()
    if model.config.decouple and source.config.decouple:
        # the audio encoder of stage 2, which only some models have, comes last
        for mine, theirs in zip(model.stage_two, source.stage_two, strict=False):
            _copy(mine, theirs, path)
    if model.strength is not None and source.strength is not None:
        _copy(model.strength, source.strength, path)


def _copy(mine: nn.Module, theirs: nn.Module, path: Path) -> None:
    try:
        mine.load_state_dict(theirs.state_dict())
    except RuntimeError as error:
        raise CheckpointError(
            f"{path} has another architecture than the model to train.",
            "Leave out --config and --model to train the file's own architecture, or give its settings.",
        ) from error


def load_weights(model: SCAV, path: Path) -> None:
    """Load the weights in `path` into a model of the same architecture, strictly."""
    tensors = read_tensors(path, MODEL_PREFIX)
    expected = model.state_dict()
    wrong = [name for name in expected if name not in tensors or tensors[name].shape != expected[name].shape]
    wrong += [name for name in tensors if name not in expected]
    if wrong:
        raise CheckpointError(
            f"{path} does not fit the model {model.config.name!r}: {len(wrong)} tensors differ, first {wrong[0]}.",
            "Use the configuration the file was trained with; `soundwhere doctor FILE` prints it.",
        )
    model.load_state_dict(tensors)


def read_tensors(path: Path, prefix: str) -> dict[str, Tensor]:
    """The tensors whose name starts with `prefix`, under the rest of their name."""
    with _open(path) as file:
        names = [name for name in file.keys() if name.startswith(prefix)]  # noqa: SIM118 - not a dict
        return {name.removeprefix(prefix): single(file.get_tensor(name)) for name in names}


def sha256(path: Path) -> str:
    """The file's sha256 as 64 hex digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _open(path: Path) -> Any:
    if not path.is_file():
        found = "is a folder" if path.is_dir() else "does not exist"
        raise CheckpointError(f"{path} {found}.", "Give a model file, such as runs/NAME/best.safetensors.")
    try:
        return safe_open(path, framework="pt")
    except (SafetensorError, OSError) as error:
        raise CheckpointError(
            f"{path} is not a readable safetensors file ({error}).",
            "It may be truncated or of another kind: copy it again, or give a file written by `soundwhere train`.",
        ) from error
