"""Models as files: safetensors with their configuration inside, folders in the layout of the Hub, and names.

Nothing is ever unpickled. Format 1 knew one method, SCAV, and is still read.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Self, TypeVar, cast

import numpy as np
from safetensors import SafetensorError, safe_open

from soundwhere.config import from_dict, to_dict
from soundwhere.errors import CheckpointError, needing
from soundwhere.files import make_folder, parse_json, sha256, write_bytes, write_json
from soundwhere.methods.catalogue import base_config, find_method, is_named

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from soundwhere.config import MethodConfig
    from soundwhere.methods.method import Network

T = TypeVar("T")

FORMATS: Final = ("soundwhere-1", "soundwhere-2")  # the last is written
MODEL_PREFIX: Final = "model."
HUB_CONFIG, HUB_WEIGHTS = "config.json", "model.safetensors"
WEIGHTS: Final = Path(__file__).parent.parent / "weights"
DEFAULT: Final = "scav-wide"

SHIPPED: dict[str, str] = {
    Path(name).stem: digest
    for digest, name in (line.split() for line in (WEIGHTS / "SHA256SUMS").read_text().splitlines())
}
"""sha256 of the weights that ship, by the model's name, so that a damaged installation is noticed."""


def load_model(name_or_path: str | Path = DEFAULT) -> Network:
    """Load a model with its weights, in eval mode on the CPU.

    Args:
        name_or_path: The name of a model whose weights ship with the package, or a file written by `soundwhere train`
            (or a run's folder, whose `best.safetensors` is taken), or a folder in the layout of the Hub.
    """
    path = Path(name_or_path)
    if str(name_or_path) not in SHIPPED and (path / HUB_WEIGHTS).is_file():
        return _from_folder(path)
    return read_model(model_file(name_or_path))


def model_file(name_or_path: str | Path) -> Path:
    """The file in which `load_model` finds a model, unless that is a folder in the layout of the Hub."""
    name, path = str(name_or_path), Path(name_or_path)
    if name in SHIPPED:
        path = WEIGHTS / f"{name}.safetensors"
        if not path.is_file() or sha256(path) != SHIPPED[name]:
            raise CheckpointError(
                f"The built-in weights of {name} are missing or damaged.", "Install the package again."
            )
        return path
    if path.is_dir():
        return path / "best.safetensors"
    if path.exists() or path.suffix == ".safetensors":
        return path
    if is_named(name):
        raise CheckpointError(
            f"No trained weights ship for {name}. Built-in: {', '.join(SHIPPED) or 'none'}.",
            f"Train it with `soundwhere train --model {name}` and give the file it writes.",
        )
    raise CheckpointError(
        f"There is no model named {name!r} and no such file.",
        f"Built-in: {', '.join(SHIPPED) or 'none'}. Otherwise give a run of `soundwhere train`: its folder or a file.",
    )


def write_model(
    path: Path,
    model: Network,
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
    from safetensors.torch import save

    tensors = {f"{MODEL_PREFIX}{name}": tensor for name, tensor in model.state_dict().items()}
    if half:
        tensors = {name: tensor.half() if tensor.is_floating_point() else tensor for name, tensor in tensors.items()}
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in {**tensors, **(extra or {})}.items()}
    metadata = {"format": FORMATS[-1], "method": json.dumps(to_dict(model.config)), "facts": json.dumps(facts or {})}
    # not save_file: it makes files only their owner may read, hides the operating system's error and, killed, leaves
    # its own temporary file behind
    write_bytes(path, save(tensors, metadata))


def read_facts(path: Path) -> tuple[MethodConfig, dict[str, Any]]:
    """The configuration and the facts stored in a model file, without its tensors."""
    with _open(path, "np") as file:
        metadata = file.metadata() or {}
    if metadata.get("format") not in FORMATS:
        raise CheckpointError(
            f"{path} is a safetensors file, but not a soundwhere model (format {metadata.get('format')!r}).",
            "Give a file written by `soundwhere train`, such as runs/NAME/best.safetensors.",
        )
    try:
        settings = parse_json(metadata.get("method") or metadata["model"])
        facts = dict(json.loads(metadata["facts"]))  # a loss among them may be NaN
    except (KeyError, ValueError, TypeError, RecursionError) as error:
        raise CheckpointError(
            f"{path} holds no readable configuration ({error}).", "Give a file written by `soundwhere train`."
        ) from error
    return stored_config(settings, str(path)), facts


def stored_config(settings: Any, where: str) -> MethodConfig:
    """A stored configuration; what it leaves out has the default of its method, whatever a name stands for today."""
    section = settings if isinstance(settings, dict) else {}  # what it is instead, `from_dict` says
    base = type(base_config({"family": "scav", **section}, where))()
    return from_dict(type(base), settings, where, base)


def build(config: MethodConfig) -> Network:
    """A network with random weights."""
    return find_method(config.family).build(config)


def read_model(path: Path) -> Network:
    """Load a model in eval mode, in single precision, on the CPU."""
    config, _ = read_facts(path)
    model = build(config)
    load_weights(model, path)
    return model.eval()


def start_from(model: Network, path: Path) -> None:
    """Begin a training from a file, with as much of it as both have."""
    other = read_model(path)
    if other.config.family != model.config.family:
        raise CheckpointError(
            f"{path} holds a model of the method {other.config.family!r}, "
            f"but {model.config.family!r} is to be trained.",
            "Give a model of the same method, or leave out --from.",
        )
    try:
        model.start_from(other)
    except RuntimeError as error:
        raise CheckpointError(
            f"{path} has another architecture than the model to train.",
            "Give the settings of the file, which `soundwhere doctor FILE` prints, or train its own architecture: "
            "`soundwhere train` without --config and --model.",
        ) from error


def load_weights(model: Network, path: Path) -> None:
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
    with _open(path, "pt") as file:
        names = [name for name in file.keys() if name.startswith(prefix)]  # noqa: SIM118 - not a dict
        return {name.removeprefix(prefix): single(file.get_tensor(name)) for name in names}


def read_arrays(path: Path, prefix: str) -> dict[str, NDArray[Any]]:
    """As `read_tensors`, without torch."""
    with _open(path, "np") as file:
        names = [name for name in file.keys() if name.startswith(prefix)]  # noqa: SIM118 - not a dict
        arrays = {name.removeprefix(prefix): file.get_tensor(name) for name in names}
    return {name: array.astype(np.float32) if array.dtype == np.float16 else array for name, array in arrays.items()}


def _open(path: Path, framework: Literal["np", "pt"]) -> Any:
    if not path.is_file():
        found = "is a folder" if path.is_dir() else "does not exist"
        raise CheckpointError(f"{path} {found}.", "Give a model file, such as runs/NAME/best.safetensors.")
    try:
        return safe_open(path, framework=framework)
    except (SafetensorError, OSError) as error:
        raise CheckpointError(
            f"{path} is not a readable safetensors file ({error}).",
            "It may be truncated or of another kind: copy it again, or give a file written by `soundwhere train`; what "
            "the authors of a method released is read with --checkpoint-of METHOD.",
        ) from error


class HubFormat:
    """Adds `save_pretrained` and `from_pretrained` to a network."""

    config: MethodConfig

    def save_pretrained(self, folder: Path | str) -> Path:
        """Write the model into a folder that can be uploaded as it is.

        Args:
            folder: Created if need be; a model that is there already is replaced.

        Returns:
            The folder.
        """
        from safetensors.torch import save

        folder = make_folder(Path(folder))
        module = cast("Network", self)
        tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in module.state_dict().items()}
        write_bytes(folder / HUB_WEIGHTS, save(tensors, {"format": "pt"}))
        write_json(folder / HUB_CONFIG, {"library_name": "soundwhere", "config": to_dict(self.config)})
        return folder

    @classmethod
    def from_pretrained(cls, folder: Path | str, *, download: bool = False) -> Self:
        """Load what `save_pretrained` wrote, in eval mode, in single precision, on the CPU.

        Args:
            folder: The folder, or the name `OWNER/MODEL` of a repository on the Hub.
            download: Fetch the repository if there is no such folder; without, nothing is asked of any network.

        Raises:
            CheckpointError: There is no such model, or it is damaged or of another kind.
        """
        path = Path(folder)
        if not path.is_dir():
            path = _fetch(str(folder)) if download else _absent(folder)
        return check_kind(_from_folder(path), cls, path, "Load it with `load_model`, whatever its method.")


def check_kind(model: Network, kind: type[T], where: str | Path, remedy: str) -> T:
    """The model from `where`, if it is a network of that class; otherwise the error ends with the remedy."""
    if not isinstance(model, kind):
        raise CheckpointError(
            f"{where} holds a model of the method {model.config.family!r}, which is not a {kind.__name__}.", remedy
        )
    return model


def _from_folder(path: Path) -> Network:
    """What `save_pretrained` wrote."""
    from safetensors.torch import load_file

    config = _read_config(path / HUB_CONFIG)
    model = build(config)
    try:
        tensors = load_file(path / HUB_WEIGHTS)
        model.load_state_dict({name: single(tensor) for name, tensor in tensors.items()})
    except (OSError, SafetensorError, RuntimeError) as error:
        raise CheckpointError(
            f"{path / HUB_WEIGHTS} does not hold the weights that {HUB_CONFIG} beside it describes ({error}).",
            "Copy or download the folder again.",
        ) from error
    return model.eval()


def _read_config(path: Path) -> MethodConfig:
    try:
        settings = parse_json(path.read_bytes())["config"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(
            f"{path} does not describe a soundwhere model ({type(error).__name__}: {error}).",
            f"Give a folder with {HUB_CONFIG} and {HUB_WEIGHTS} that `save_pretrained` wrote.",
        ) from error
    return stored_config(settings, str(path))


def _fetch(name: str) -> Path:
    """A repository's files in the Hub's own cache."""
    with needing("huggingface_hub", "hub"):
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HfHubHTTPError, HFValidationError
    try:
        return Path(snapshot_download(name, allow_patterns=[HUB_CONFIG, HUB_WEIGHTS]))
    except (HfHubHTTPError, HFValidationError, OSError) as error:
        raise CheckpointError(
            f"{name} could not be fetched from the Hub ({type(error).__name__}).",
            "Check the name OWNER/MODEL and the connection, or give a folder.",
        ) from error


def _absent(folder: Path | str) -> Path:
    raise CheckpointError(
        f"{folder} is not a folder.",
        f"Give one with {HUB_CONFIG} and {HUB_WEIGHTS}, or download=True to fetch OWNER/MODEL from the Hub.",
    )


def single(tensor: Tensor) -> Tensor:
    """In single precision, if it was stored in half."""
    return tensor.float() if tensor.element_size() == 2 and tensor.is_floating_point() else tensor
