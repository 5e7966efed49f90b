"""What the paper claims, and what our numbers say to it. Verdicts follow from intervals alone; nothing is typed in.

A claim of the paper is a difference between two of its figures. It agrees with ours where our interval has the paper's
difference in it; it agrees in order only where our interval lies on the same side of 0 but elsewhere.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from soundwhere.analysis.compare import JUDGED, PAPER
from soundwhere.analysis.contenders import REFERENCE
from soundwhere.metrics.bootstrap import Interval
from soundwhere.metrics.report import Table, figure_name, percent
from soundwhere.reproduction.main_tables import paper_figures

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

AGREES, ORDER, UNDECIDED, DIFFERS, OPEN = "agrees", "agrees in order only", "undecided", "differs", "not claimed"
VERDICTS: Final = (AGREES, ORDER, UNDECIDED, DIFFERS, OPEN)


@dataclass(frozen=True)
class Claim:
    """A statement, the paper's figure for it and ours.

    Attributes:
        part: Which table or figure of the paper.
        statement: What is claimed.
        data: What ours was measured on.
        paper: The paper's difference, in [-1, 1]; None where it only says which is larger: the statement's first.
        ours: Our difference.
    """

    part: str
    statement: str
    data: str
    paper: float | None
    ours: Interval

    @property
    def verdict(self) -> str:
        """One of `VERDICTS`."""
        if self.ours.low <= 0 <= self.ours.high:
            return UNDECIDED
        if (self.ours.value > 0) != (self.paper is None or self.paper > 0):
            return DIFFERS
        return AGREES if self.paper is None or self.ours.low <= self.paper <= self.ours.high else ORDER

    @property
    def why(self) -> str:
        """What the verdict follows from, in words."""
        if self.ours.low == self.ours.high == 0:
            return "ours are equal, scene by scene"
        if self.verdict == UNDECIDED:
            return "our interval holds 0: so few scenes, or so short a training, do not tell"
        if self.verdict == DIFFERS:
            return "our interval lies on the other side of 0"
        if self.paper is None:
            return "our interval lies on the claimed side of 0"
        if self.verdict == AGREES:
            return "the paper's difference lies in our interval"
        side = "above" if self.paper > self.ours.high else "below"
        return f"same sign; the paper's difference lies {side} our interval"


@dataclass(frozen=True)
class Statement:
    """A statement of the appendix, which holds or not.

    Attributes:
        statement: What is stated.
        measured: What was found.
        holds: None where its condition is not met.
    """

    statement: str
    measured: str
    holds: bool | None

    @property
    def verdict(self) -> str:
        """One of `VERDICTS`."""
        return OPEN if self.holds is None else AGREES if self.holds else DIFFERS


def comparison_claims(values: Mapping[str, Any]) -> Iterator[Claim]:
    """SCAV against every system that the paper compares it with, on each benchmark, from what `compare` found."""
    names = {row: facts["name"] for row, facts in values["rows"].items()}
    for title, found in values["benchmarks"].items():
        figures_of = paper_figures(title, found["truth"])[1]
        theirs = {method: each[JUDGED] for method, each in figures_of.items() if JUDGED in each}
        for pair, figures in found["differences"].items():
            row = pair.removesuffix(f" - {_reference(names, pair)}")
            method = PAPER.get(names[row])
            if method is None or method not in theirs or PAPER[REFERENCE] not in theirs:
                continue
            lead = Interval(**figures[JUDGED])
            yield Claim(
                f"{'box' if found['truth'] == 'boxes' else 'mask'} table",
                f"SCAV against {row}, {figure_name(JUDGED)}",
                title,
                (theirs[PAPER[REFERENCE]] - theirs[method]) / 100,
                Interval(-lead.value, -lead.high, -lead.low),
            )


def convergence_claims(values: Mapping[str, Any], data: str) -> Iterator[Claim]:
    """Stage 1 favours one source, and not only as any single map does, from what `convergence` found."""
    paper = values["paper"]["dominant"][JUDGED] - values["paper"]["second"][JUDGED]
    part = "selective convergence"
    for name, more in values["more_than_misled"].items():
        words = f"stage 1 of {name}: dominant against second source, {figure_name(JUDGED)}"
        yield Claim(part, words, data, paper, Interval(**values["gaps"][name]["gap"][JUDGED]))
        yield Claim(part, "that gap against the one with another scene's sound", data, None, Interval(**more))


def ablation_claims(values: Mapping[str, Any], data: str) -> Iterator[Claim]:
    """The orderings of the ablation and what boxes change, from what `ablation` found."""
    rows = values["rows"]
    for each in values["orderings"]:
        words = f"{rows[each['first']]['label']} against {rows[each['second']]['label']}, {figure_name(JUDGED)}"
        yield Claim("ablation", words, data, each["paper"], Interval(**each["ours"]))
    for row in rows.values():
        if row["paper"] is not None:
            place = row["paper"]["figures"].index(JUDGED)
            theirs = (row["paper"]["box"][place] - row["paper"]["mask"][place]) / 100
            words = f"{row['label']}: boxes against masks, {figure_name(JUDGED)}"
            yield Claim("box against mask", words, data, theirs, Interval(**row["box_minus_mask"]))


def protocol_claims(values: Mapping[str, Any], data: str) -> Iterator[Claim]:
    """Source-wise scores are no lower than frame-wise ones, from what `protocols` found."""
    for answer, gain in values["source_minus_frame"].items():
        words = f"{answer}: source-wise against frame-wise, mean IoU"
        yield Claim("protocols", words, data, None, Interval(**gain))


def theory_statements(values: Mapping[str, Any]) -> list[Statement]:
    """What the appendix states, from what `theory` found."""
    return [Statement(each["claim"], each["measured"], each["holds"]) for each in values["checks"]]


def claims_table(claims: Sequence[Claim]) -> Table:
    """Every claim with both differences and the verdict."""
    lines = tuple(
        (
            each.part,
            each.statement,
            each.data,
            "larger" if each.paper is None else f"{100 * each.paper:+.1f}",
            percent(each.ours, signed=True),
            each.verdict,
            each.why,
        )
        for each in claims
    )
    note = (
        "Differences in percent, first minus second. The paper's are of VGGSound and MUSIC at full scale: where data "
        "and length of training differ, expect orders to agree rather than numbers. Intervals: 95 %."
    )
    return Table("Claims", ("part", "claim", "data", "paper", "ours", "verdict", "why"), lines, (note,))


def statements_table(statements: Sequence[Statement]) -> Table:
    """What the appendix states."""
    lines = tuple((each.statement, each.verdict, each.measured) for each in statements)
    return Table("The appendix", ("statement", "verdict", "measured"), lines)


def tally(judged: Iterable[Claim | Statement]) -> str:
    """How many claims there are of each verdict, in words."""
    counts = Counter(each.verdict for each in judged)
    return "; ".join(f"{verdict}: {counts[verdict]}" for verdict in VERDICTS if counts[verdict]) or "nothing was run"


def as_values(claims: Sequence[Claim], statements: Sequence[Statement]) -> dict[str, Any]:
    """The same as JSON values."""
    return {
        "claims": [{**asdict(each), "verdict": each.verdict, "why": each.why} for each in claims],
        "statements": [{**asdict(each), "verdict": each.verdict} for each in statements],
    }


def _reference(names: Mapping[str, str], pair: str) -> str:
    """The row of SCAV that ends the name of a pair."""
    return max((row for row, name in names.items() if name == REFERENCE and pair.endswith(f" - {row}")), key=len)
