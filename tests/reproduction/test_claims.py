from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from soundwhere.evaluation.published import find_published
from soundwhere.metrics.bootstrap import Interval
from soundwhere.reproduction.claims import (
    AGREES,
    DIFFERS,
    OPEN,
    ORDER,
    UNDECIDED,
    Claim,
    Statement,
    ablation_claims,
    as_values,
    claims_table,
    comparison_claims,
    convergence_claims,
    protocol_claims,
    tally,
)

SHARES = st.floats(-1, 1, allow_nan=False)


def claim(paper: float | None, value: float, low: float, high: float) -> Claim:
    return Claim("part", "a against b", "scenes", paper, Interval(value, low, high))


@pytest.mark.parametrize(
    ("paper", "ours", "verdict", "why"),
    [
        (0.1, (0.12, 0.05, 0.2), AGREES, "lies in our interval"),
        (0.3, (0.12, 0.05, 0.2), ORDER, "above our interval"),
        (0.01, (0.12, 0.05, 0.2), ORDER, "below our interval"),
        (-0.1, (0.12, 0.05, 0.2), DIFFERS, "other side of 0"),
        (0.1, (0.02, -0.05, 0.2), UNDECIDED, "holds 0"),
        (None, (0.0, 0.0, 0.0), UNDECIDED, "ours are equal"),
        (-0.1, (-0.12, -0.2, -0.05), AGREES, "lies in our interval"),
        (None, (0.12, 0.05, 0.2), AGREES, "claimed side"),
        (None, (-0.12, -0.2, -0.05), DIFFERS, "other side of 0"),
    ],
)
def test_verdicts(paper: float | None, ours: tuple[float, float, float], verdict: str, why: str) -> None:
    found = claim(paper, *ours)
    assert found.verdict == verdict
    assert why in found.why


@given(SHARES, st.lists(SHARES, min_size=3, max_size=3))
def test_turning_a_claim_round_does_not_change_its_verdict(paper: float, ours: list[float]) -> None:
    low, value, high = sorted(ours)
    if paper == 0:
        return
    turned = claim(-paper, -value, -high, -low)
    assert turned.verdict == claim(paper, value, low, high).verdict


@given(SHARES, st.lists(SHARES, min_size=3, max_size=3))
def test_only_intervals_on_one_side_of_0_decide(paper: float, ours: list[float]) -> None:
    low, value, high = sorted(ours)
    assert (claim(paper, value, low, high).verdict == UNDECIDED) == (low <= 0 <= high)


def figure(value: float, low: float, high: float) -> dict[str, dict[str, float]]:
    return {"ciou@0.3": {"value": value, "low": low, "high": high}}


def test_scav_against_what_the_paper_compares_it_with() -> None:
    rows = {
        "ez-vsl (same map twice)": {"name": "ez-vsl"},
        "fnac (same map twice)": {"name": "fnac"},
        "scav": {"name": "scav"},
    }
    differences = {f"{row} - scav": figure(-0.2, -0.3, -0.1) for row in list(rows)[:2]}
    benchmarks = {
        "real-duet test": {"truth": "masks", "differences": differences},
        "vggsound-duet": {"truth": "boxes", "differences": differences},
    }
    found = list(comparison_claims({"rows": rows, "benchmarks": benchmarks}))
    assert [(each.data, each.part) for each in found] == [  # no table has FNAC
        ("real-duet test", "mask table"),
        ("vggsound-duet", "box table"),
    ]
    for each, benchmark in zip(found, ("vggsound-duet-mask", "vggsound-duet"), strict=True):
        theirs = [find_published(name, benchmark).figures["ciou@0.3"] for name in ("SCAV", "EZ-VSL")]
        assert each.paper == pytest.approx((theirs[0] - theirs[1]) / 100)
        assert each.ours == Interval(0.2, 0.1, 0.3)


def test_what_the_other_analyses_say() -> None:
    gaps = {"gap": figure(0.4, 0.3, 0.5)}
    paper = {"dominant": {"ciou@0.3": 0.5}, "second": {"ciou@0.3": 0.1}}
    misled = {"a": figure(0.1, -0.05, 0.2)["ciou@0.3"]}
    values = {"paper": paper, "gaps": {"a": gaps, "constant": gaps}, "more_than_misled": misled}
    first, second = convergence_claims(values, "duets")
    assert (first.paper, first.verdict) == (0.4, AGREES)
    assert second.ours == Interval(0.1, -0.05, 0.2)
    assert second.verdict == UNDECIDED

    row = {"label": "full", "box_minus_mask": figure(-0.05, -0.1, -0.01)["ciou@0.3"]}
    row |= {"paper": {"figures": ["cap", "ciou@0.3"], "mask": [1, 60.0], "box": [1, 53.0]}}
    other = {**row, "label": "(a)", "paper": None}
    ordering = {"first": "full", "second": "a", "paper": 0.2, "ours": figure(0.1, 0.05, 0.15)["ciou@0.3"]}
    order, boxes = ablation_claims({"rows": {"full": row, "a": other}, "orderings": [ordering]}, "duets")
    assert (order.statement, order.verdict) == ("full against (a), CIoU@0.3", ORDER)
    assert boxes.paper == pytest.approx(-0.07)
    assert boxes.verdict == AGREES

    gains = {"scav": {"value": 0.4, "low": 0.3, "high": 0.5}}
    (protocol,) = protocol_claims({"source_minus_frame": gains}, "duets")
    assert protocol.verdict == AGREES


def test_the_tally_and_the_table() -> None:
    claims = [claim(0.1, 0.1, 0.05, 0.2), claim(0.1, 0.1, -0.05, 0.2)]
    statements = [Statement("lemma", "1e-9", holds) for holds in (True, False, None)]
    assert [each.verdict for each in statements] == [AGREES, DIFFERS, OPEN]
    assert tally([*claims, *statements]) == "agrees: 2; undecided: 1; differs: 1; not claimed: 1"
    assert tally([]) == "nothing was run"
    table = claims_table(claims)
    assert [row[5] for row in table.rows] == [AGREES, UNDECIDED]
    values = as_values(claims, statements)
    assert [each["verdict"] for each in values["claims"]] == [AGREES, UNDECIDED]
    assert values["claims"][0]["ours"] == {"value": 0.1, "low": 0.05, "high": 0.2}
