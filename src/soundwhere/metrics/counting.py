"""How many things sound: nothing, one or two of those that are seen, by one threshold on how sure a method is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from soundwhere.metrics.bootstrap import DRAWS, Interval

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    Values = NDArray[np.float64]
    Rates = dict[str, float]

MISSES: Final = 0.15
"""Share of sounding sources that may be missed where false alarms are compared."""
WRONGLY_DARK: Final = 0.005
"""Share of scenes that are less sure of their own sounds than others have to be; see `dark_below`."""
_CANDIDATES: Final = 500  # thresholds that are tried


def count_right(
    sure: Mapping[str, Values], nothing: Sequence[str], threshold: float, draws: int = DRAWS, seed: int = 0
) -> dict[str, Interval]:
    """How often the number of sources that reach a threshold is right, and what lights without a reason.

    Args:
        sure: How sure a method is of each of its K maps of N scenes, shape (N, K) each, NaN where it was not asked:
            with the scene's `own` sounds, with one of them `alone`, with that of `nothing` seen, and in `silent` ones;
            perhaps with one of them and its frame alone in sight (`lone`).
        nothing: What each scene heard of nothing it shows: `absent`, `white` or `pink`.
        threshold: From which a source counts as sounding.
        draws: Bootstrap samples of the scenes.
        seed: Decides which scenes are drawn.

    Returns:
        `two`, `one` and `nothing`: how often the count is right; `balanced`: their mean; `second`: how often one sound
        alone gets a second source, and `lone`, if nothing else is seen; `absent`, `white`, `pink`, `silent`: how often
        something lights; `absent_at_misses`: the same for absent sounds at the threshold that misses 15 % of the
        sources of `own`. With 95 % intervals by bootstrap over scenes; empty if no scene was asked about everything.
    """
    asked, kinds = _asked(sure, nothing)
    if not len(kinds):
        return {}
    found = _rates(asked, kinds, threshold)
    rng = np.random.default_rng(seed)
    drawn = []
    for _ in range(draws):
        chosen = rng.integers(len(kinds), size=len(kinds))
        drawn.append(_rates({name: values[chosen] for name, values in asked.items()}, kinds[chosen], threshold))
    return {
        name: Interval.of(value, [each[name] for each in drawn]) for name, value in found.items() if not np.isnan(value)
    }


def best_threshold(sure: Mapping[str, Values], nothing: Sequence[str], most_second: float = 1.0) -> float:
    """The threshold at which the number of sources is right most often, balanced over nothing, one and two.

    Args:
        sure: As for `count_right`.
        nothing: As for `count_right`.
        most_second: In how many scenes one alone may get a second source, as a share. Where no threshold does as well,
            the one that comes closest.
    """
    values = np.unique(np.concatenate([each[~np.isnan(each)] for each in sure.values()]))
    middles = (values[1:] + values[:-1]) / 2 if len(values) > 1 else values
    middles = middles[:: max(1, len(middles) // _CANDIDATES)]
    asked, kinds = _asked(sure, nothing)
    rates = [_rates(asked, kinds, float(middle)) for middle in middles]
    right, second = (np.array([each[name] for each in rates]) for name in ("balanced", "second"))
    right[second > max(most_second, second.min())] = -1
    return float(middles[int(np.argmax(right))])


def dark_below(sure: Mapping[str, Values], share: float = WRONGLY_DARK) -> float:
    """Half the confidence of their first source that all but a small share of scenes reach with their own sounds.

    Half, because recordings of other collections fit what they come from less surely.

    >>> dark_below({"own": np.array([[0.9, 0.1], [0.5, 0.5], [0.8, 0.2]])}, share=0.0)
    0.25
    """
    return float(np.nanquantile(sure["own"][:, 0], share, method="lower")) / 2


def _asked(sure: Mapping[str, Values], nothing: Sequence[str]) -> tuple[dict[str, Values], NDArray[np.str_]]:
    """Of the scenes that were asked about everything, how sure the method is, and what they heard of nothing."""
    known = ~np.any([np.isnan(values[:, 0]) for values in sure.values()], axis=0)
    return {name: values[known] for name, values in sure.items()}, np.array(nothing)[known]


def _rates(sure: Mapping[str, Values], kinds: NDArray[np.str_], threshold: float) -> Rates:
    counts = {name: (values >= threshold).sum(1) for name, values in sure.items()}
    right = {
        "two": float((counts["own"] == 2).mean()),
        "one": float((counts["alone"] == 1).mean()),
        "nothing": float((counts["nothing"] == 0).mean()),
    }
    strict = np.nanquantile(sure["own"], MISSES)
    absent = kinds == "absent"
    return {
        **right,
        "balanced": float(np.mean(list(right.values()))),
        "second": float((counts["alone"] > 1).mean()),
        "lone": float((counts["lone"] > 1).mean()) if "lone" in counts else float("nan"),
        **{kind: _mean(counts["nothing"][kinds == kind] > 0) for kind in ("absent", "white", "pink")},
        "silent": float((counts["silent"] > 0).mean()),
        "absent_at_misses": _mean((sure["nothing"][absent] >= strict).any(1)),
    }


def _mean(values: NDArray[np.bool_]) -> float:
    return float(values.mean()) if len(values) else float("nan")
