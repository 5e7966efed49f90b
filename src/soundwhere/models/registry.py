"""Models by name: the configurations, and the weights that ship with the package."""

from __future__ import annotations

from pathlib import Path

from soundwhere.config import CONFIGS
from soundwhere.errors import CheckpointError
from soundwhere.models.hub import WEIGHTS as HUB_WEIGHTS
from soundwhere.models.scav import SCAV
from soundwhere.models.storage import read_model, sha256

WEIGHTS = Path(__file__).parent.parent / "weights"

SHIPPED: dict[str, str] = {
    Path(name).stem: digest
    for digest, name in (line.split() for line in (WEIGHTS / "SHA256SUMS").read_text().splitlines())
}
"""sha256 of the weights that ship, by the model's name, so that a damaged installation is noticed."""

DEFAULT = "scav-mobile"


def load_model(name_or_path: str | Path = DEFAULT) -> SCAV:
    """Load a model with its weights, in eval mode on the CPU.

    Args:
        name_or_path: The name of a model whose weights ship with the package, or a file written by `soundwhere train`
            (or a run's folder, whose `best.safetensors` is taken), or a folder in the layout of the Hub.
    """
    path = Path(name_or_path)
    if str(name_or_path) not in SHIPPED and (path / HUB_WEIGHTS).is_file():
        return SCAV.from_pretrained(path)
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
    if name in CONFIGS:
        raise CheckpointError(
            f"No trained weights ship for {name}. Built-in: {', '.join(SHIPPED) or 'none'}.",
            f"Train it with `soundwhere train --model {name}` and give the file it writes.",
        )
    raise CheckpointError(
        f"There is no model named {name!r} and no such file.",
        f"Built-in: {', '.join(SHIPPED) or 'none'}. Otherwise give a file written by `soundwhere train`.",
    )
