"""Models as folders in the layout of the Hugging Face Hub: `config.json` beside `model.safetensors`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final, Self, cast

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save

from soundwhere.config import ModelConfig, from_dict, to_dict
from soundwhere.errors import CheckpointError, MissingExtraError
from soundwhere.files import atomic_path, make_folder, parse_json, write_json

if TYPE_CHECKING:
    from torch import nn

CONFIG: Final = "config.json"
WEIGHTS: Final = "model.safetensors"


class HubFormat:
    """Adds `save_pretrained` and `from_pretrained` to a module that is built from a `ModelConfig`, its `config`."""

    config: ModelConfig

    def save_pretrained(self, folder: Path | str) -> Path:
        """Write the model into a folder that can be uploaded as it is.

        Args:
            folder: Created if need be; a model that is there already is replaced.

        Returns:
            The folder.
        """
        folder = make_folder(Path(folder))
        module = cast("nn.Module", self)
        tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in module.state_dict().items()}
        content = save(tensors, {"format": "pt"})
        with atomic_path(folder / WEIGHTS) as temporary:
            temporary.write_bytes(content)
        write_json(folder / CONFIG, {"library_name": "soundwhere", "config": to_dict(self.config)})
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
        model = cast("nn.Module", cls(_read_config(path / CONFIG)))  # type: ignore[call-arg]
        try:
            tensors = load_file(path / WEIGHTS)
            model.load_state_dict({name: single(tensor) for name, tensor in tensors.items()})
        except (OSError, SafetensorError, RuntimeError) as error:
            raise CheckpointError(
                f"{path / WEIGHTS} does not hold the weights that {CONFIG} beside it describes ({error}).",
                "Copy or download the folder again.",
            ) from error
        return cast("Self", model.eval())


def _read_config(path: Path) -> ModelConfig:
    try:
        settings = parse_json(path.read_bytes())["config"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(
            f"{path} describes no soundwhere model ({type(error).__name__}: {error}).",
            f"Give a folder with {CONFIG} and {WEIGHTS} that `save_pretrained` wrote.",
        ) from error
    return from_dict(ModelConfig, settings, str(path))


def _fetch(name: str) -> Path:
    """A repository's files in the Hub's own cache."""
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HfHubHTTPError, HFValidationError
    except ImportError as error:
        raise MissingExtraError("huggingface_hub", "hub") from error

    try:
        return Path(snapshot_download(name, allow_patterns=[CONFIG, WEIGHTS]))
    except (HfHubHTTPError, HFValidationError, OSError) as error:
        raise CheckpointError(
            f"{name} could not be fetched from the Hub ({type(error).__name__}).",
            "Check the name OWNER/MODEL and the connection, or give a folder.",
        ) from error


def _absent(folder: Path | str) -> Path:
    raise CheckpointError(
        f"{folder} is no folder.",
        f"Give one with {CONFIG} and {WEIGHTS}, or download=True to fetch OWNER/MODEL from the Hub.",
    )


def single(tensor: torch.Tensor) -> torch.Tensor:
    """In single precision, if it was stored in half."""
    return tensor.float() if tensor.dtype == torch.float16 else tensor
