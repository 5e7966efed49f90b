"""From a heatmap to a mask: the rules of the field, by name.

Every rule is a threshold per map and a comparison. A name is the rule, its number where it has one, and `strict` where
only pixels *above* the threshold count: `minmax-0.5`, `median`, `median-strict`, `max-fraction-0.2-strict`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from soundwhere.errors import ConfigError
from soundwhere.metrics.kernels import is_flat, not_finite

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

DEFAULT_RULE: Final = "minmax-0.5"
_NUMBERED: Final = ("minmax", "max-fraction", "fixed", "top-area")
_NAME: Final = re.compile(rf"(?P<kind>median|{'|'.join(_NUMBERED)})(-(?P<value>\d*\.?\d+))?(?P<strict>-strict)?")


@dataclass(frozen=True)
class Rule:
    """How a heatmap becomes a mask.

    Attributes:
        kind: `minmax` (between the map's minimum and maximum), `max-fraction` (of the maximum), `fixed` (the map's own
            values), `top-area` (the highest-valued share of the pixels), or `median` (the upper median).
        value: The rule's number; unused by `median`.
        strict: Keep pixels above the threshold only, instead of at or above it.
    """

    kind: str
    value: float = 0.5
    strict: bool = False

    def __str__(self) -> str:
        number = "" if self.kind == "median" else f"-{self.value:g}"
        return f"{self.kind}{number}{'-strict' if self.strict else ''}"


def parse_rule(name: str) -> Rule:
    """The rule of a name such as `minmax-0.5`, `median`, `max-fraction-0.2-strict`, `fixed-0.6` or `top-area-0.25`.

    Raises:
        ConfigError: There is no such rule.

    Example:
        >>> parse_rule("max-fraction-0.2-strict")
        Rule(kind='max-fraction', value=0.2, strict=True)
    """
    match = _NAME.fullmatch(name)
    if match is None or (match["kind"] in _NUMBERED) != (match["value"] is not None):
        raise ConfigError(
            f"There is no binarisation rule {name!r}.",
            f"Choose median or, with a number as in {DEFAULT_RULE}, one of: {', '.join(_NUMBERED)}; "
            "add -strict to keep only pixels above the threshold.",
        )
    value = 0.5 if match["value"] is None else float(match["value"])
    if match["kind"] != "fixed" and not 0 <= value <= 1:
        raise ConfigError(
            f"The number of {name!r} is a share and lies outside 0 to 1.", f"For example: {DEFAULT_RULE}."
        )
    return Rule(match["kind"], value, match["strict"] is not None)


def binarise(maps: Tensor, rule: Rule | str = DEFAULT_RULE) -> Tensor:
    """Binarise each map over all its pixels.

    Pixels that tie with the threshold of `median` or `top-area` are all kept (or, if strict, all dropped), so the order
    of pixels does not matter. Those at the maximum are kept even then: of a saturated map, whose median is its maximum,
    something is left, as in the peers' code. A flat map has no min-max and binarises to nothing under `minmax`, to
    everything under `median` and `top-area`; rounding errors do not count as a range. Boolean maps are masks already
    and are returned as they are.

    Args:
        maps: Heatmaps, shape (..., H, W), any type of number, higher where it sounds.
        rule: A rule or its name.

    Returns:
        Shape (..., H, W), bool, on the CPU unless `maps` are masks.

    Raises:
        DataError: A map holds NaN or infinity.
        ConfigError: There is no such rule.
    """
    import torch  # only here: inference binarises arrays and does without

    from soundwhere.metrics.functional import to_numpy

    if maps.dtype == torch.bool:
        return maps
    # thresholds lie between whole numbers
    heat = to_numpy(maps if maps.is_floating_point() else maps.double())
    return torch.from_numpy(binarise_arrays(heat, rule))


def binarise_arrays(heat: NDArray[np.floating], rule: Rule | str = DEFAULT_RULE) -> NDArray[np.bool_]:
    """As `binarise`, of maps as arrays of floating-point numbers."""
    rule = parse_rule(rule) if isinstance(rule, str) else rule
    binary = np.empty(heat.shape, dtype=bool)
    for index in np.ndindex(heat.shape[:-2]):
        threshold, strict = _threshold(heat[index], rule)
        compare = np.greater if strict else np.greater_equal
        compare(heat[index], threshold, out=binary[index])
    return binary


def _threshold(heat: NDArray[Any], rule: Rule) -> tuple[Any, bool]:
    """The value that the pixels of one map are compared with, in its own type, and whether they must exceed it."""
    low, high = heat.min(), heat.max()
    if not (np.isfinite(low) and np.isfinite(high)):
        raise not_finite()
    number = heat.dtype.type
    if rule.kind == "fixed":
        return number(rule.value), rule.strict
    if rule.kind == "max-fraction":
        return high * number(rule.value), rule.strict
    flat = is_flat(low, high)
    if rule.kind == "minmax":
        return number(np.inf) if flat else low + number(rule.value) * (high - low), rule.strict
    if flat:
        return low, False
    # the peers' median is element N // 2 of the sorted pixels
    place = heat.size // 2 if rule.kind == "median" else heat.size - max(1, round(rule.value * heat.size))
    threshold = np.partition(heat, place, axis=None)[place]
    return threshold, rule.strict and threshold < high
