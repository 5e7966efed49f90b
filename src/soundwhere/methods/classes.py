"""Methods that know classes: which of their class maps answer for a scene.

At test they are told the classes that sound, and give the map of each: rows of a table say so. Without labels, as for
somebody's own video, the classes that they hear most surely take their place.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from soundwhere.data.training_scenes import class_names
from soundwhere.errors import ConfigError, DataError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from soundwhere.config import Config, MethodConfig
    from soundwhere.methods.method import Given


def with_classes(config: Config, *, needed: bool = True) -> Config:
    """The configuration with the classes of the clips trained on, so that a checkpoint knows them.

    Raises:
        ConfigError: The clips have no classes, and they are needed.
    """
    method: Any = config.method
    try:
        names = class_names(config.data)
    except ConfigError:
        if needed:
            raise
        names = ()
    return replace(config, method=replace(method, classes=names))


def require_classes(config: MethodConfig, classes: Sequence[str]) -> None:
    """Refuse to build a network of classes that are not known."""
    if not classes:
        raise ConfigError(
            f"The method {config.family!r} needs the names of its classes.",
            "Train it on clips that have classes, which it takes from them. Those of a checkpoint that its authors "
            "released are named in the order of their numbers: `soundwhere evaluate ... --classes NAME ...`.",
        )


def choose_classes(heard: Tensor, classes: Sequence[str], given: Given | None, sources: int) -> Tensor:
    """Numbers of the classes whose maps are the answer, shape (B, sources), int64.

    A scene with fewer labels than maps gets those of its labels over again, from the first.

    Args:
        heard: How surely each class is heard, shape (B, classes).
        classes: Their names.
        given: Labels, if there are any.
        sources: How many maps are asked for.

    Raises:
        DataError: A label is not among the classes.
    """
    if given is None or given.labels is None:
        order = heard.topk(min(sources, len(classes)), dim=1).indices
        return order[:, [number % order.shape[1] for number in range(sources)]]
    unknown = sorted({label for labels in given.labels for label in labels} - set(classes))
    if unknown:
        raise DataError(
            f"The model was not trained on the class {unknown[0]!r}.",
            f"It knows {', '.join(classes)}. Train it on clips of the classes to be scored.",
        )
    if not all(given.labels):
        raise DataError("A scene has no labels.", "Score label-using methods on scenes whose classes are known.")
    rows = [[classes.index(labels[k % len(labels)]) for k in range(sources)] for labels in given.labels]
    return torch.tensor(rows, device=heard.device)


def several_hot(labels: Tensor, classes: int) -> Tensor:
    """Numbers of classes (B, K) as ones among zeros, shape (B, classes), float32."""
    return torch.zeros(len(labels), classes, device=labels.device).scatter_(1, labels, 1.0)


def taken(values: Tensor, numbers: Tensor) -> Tensor:
    """Of values (B, classes, ...) those of the chosen classes (B, K), shape (B, K, ...)."""
    return values[torch.arange(values.shape[0], device=values.device)[:, None], numbers]
