"""Models by name: the configurations, and the weights that ship with the package."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from soundwhere.config import ModelConfig
from soundwhere.errors import CheckpointError, ConfigError
from soundwhere.models.storage import read_model, sha256

if TYPE_CHECKING:
    from soundwhere.models.scav import SCAV

WEIGHTS = Path(__file__).parent.parent / "weights"

CONFIGS: dict[str, ModelConfig] = {
    # The paper: ResNet-18 for both, D 512.
    "scav-r18": ModelConfig(),
    # Small and quick on a CPU. Stage 1 has no visual projection: the audio head gives MobileNetV2's 1280 values.
    "scav-mobile": ModelConfig(name="scav-mobile", visual="mobilenet_v2", audio="compact", dimension=256),
    # For the made-up world: small CNNs trained from scratch, the visual one included.
    "scav-tiny": ModelConfig(
        name="scav-tiny",
        visual="tiny",
        audio="tiny",
        visual_weights="none",
        freeze_visual=False,
        frame_px=128,
        dimension=128,
    ),
}

# sha256 of the weights that ship, so that a damaged installation is noticed.
SHIPPED: dict[str, str] = {}

DEFAULT = "scav-tiny"


def model_config(name: str, **changes: object) -> ModelConfig:
    """The configuration of a named model, with changes."""
    if name not in CONFIGS:
        raise ConfigError(f"There is no model named {name!r}.", f"Choose one of: {', '.join(CONFIGS)}.")
    return replace(CONFIGS[name], **changes)  # type: ignore[arg-type]


def load_model(name_or_path: str | Path = DEFAULT) -> SCAV:
    """Load a model with its weights, in eval mode on the CPU.

    Args:
        name_or_path: The name of a model whose weights ship with the package, or a file written by `soundwhere train`
            (or a run's folder, whose `best.safetensors` is taken).
    """
    name = str(name_or_path)
    if name in SHIPPED:
        path = WEIGHTS / f"{name}.safetensors"
        if not path.is_file() or sha256(path) != SHIPPED[name]:
            raise CheckpointError(f"The built-in weights of {name} are missing or damaged.", "Install the package again.")
        return read_model(path)
    path = Path(name_or_path)
    if path.is_dir():
        return read_model(path / "best.safetensors")
    if path.exists() or path.suffix == ".safetensors":
        return read_model(path)
    if name in CONFIGS:
        raise CheckpointError(
            f"No trained weights ship for {name}.",
            f"Train it with `soundwhere train --model.name {name}`, or give a file. With weights: {', '.join(SHIPPED)}.",
        )
    raise CheckpointError(
        f"There is no model named {name!r} and no such file.",
        f"Built-in: {', '.join(SHIPPED) or 'none'}. Otherwise give a file written by `soundwhere train`.",
    )
