"""From a heatmap to a mask: the rules of the field, by name.

Every rule is a threshold per map and a comparison. A name is the rule, its number where it has one, and `strict` where
only pixels *above* the threshold count: `minmax-0.5`, `median`, `median-strict`, `max-fraction-0.2-strict`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import torch

from soundwhere.errors import ConfigError
from soundwhere.metrics.functional import check_finite

if TYPE_CHECKING:
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

    A constant map has no min-max and binarises to nothing under `minmax`. Pixels that tie with the threshold of
    `median` or `top-area` are all kept (or, if strict, all dropped), so the order of pixels does not matter. Boolean
    maps are masks already and are returned as they are.

    Args:
        maps: Heatmaps, shape (..., H, W), higher where it sounds.
        rule: A rule or its name.

    Returns:
        Shape (..., H, W), bool.

    Raises:
        DataError: A map holds NaN or infinity.
        ConfigError: There is no such rule.
    """
    if maps.dtype == torch.bool:
        return maps
    rule = parse_rule(rule) if isinstance(rule, str) else rule
    check_finite(maps)
    level = threshold(maps, rule)[..., None, None]
    return maps > level if rule.strict else maps >= level


def threshold(maps: Tensor, rule: Rule) -> Tensor:
    """The value a pixel is compared with, for each map (..., H, W), shape (...)."""
    if rule.kind == "fixed":
        return maps.new_full(maps.shape[:-2], rule.value)
    high = maps.amax((-2, -1))
    if rule.kind == "max-fraction":
        return high * rule.value
    if rule.kind == "minmax":
        low = maps.amin((-2, -1))
        return torch.where(high > low, low + rule.value * (high - low), torch.inf)
    pixels = maps.flatten(-2)
    total = pixels.shape[-1]
    # the peers' median is the element N // 2 of the sorted pixels
    kept = total - total // 2 if rule.kind == "median" else max(1, round(rule.value * total))
    return pixels.kthvalue(total - kept + 1, -1).values
