"""The paper's ablation (tab:ablation, tab:ablation_algorithm1) at any scale: every row from one shared stage 1.

Ours stand beside the paper's: scored by masks and by boxes, what boxes change, and where the ordering agrees.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import torch

from soundwhere.analysis.convergence import PAPER as PAPER_CONVERGENCE
from soundwhere.analysis.convergence import gap, gap_table
from soundwhere.analysis.protocols import box_truth
from soundwhere.analysis.report import Report, rows_with_intervals
from soundwhere.analysis.trained_rows import train_row
from soundwhere.constants import SOURCES
from soundwhere.errors import DataError
from soundwhere.evaluation.answerers import InputFreeAnswerer
from soundwhere.evaluation.constant import Blobs
from soundwhere.evaluation.network_answerer import NetworkAnswerer
from soundwhere.evaluation.published import find_published
from soundwhere.evaluation.reading import views
from soundwhere.evaluation.rows import Row
from soundwhere.evaluation.summary import as_json
from soundwhere.methods.scav.config import SCAVConfig
from soundwhere.metrics.bootstrap import Interval, intervals, paired_differences
from soundwhere.metrics.pairs import PairScores, concatenate
from soundwhere.metrics.presets import find_preset, score
from soundwhere.metrics.report import Table, figure_name, figures_table, percent
from soundwhere.training.run import stage_file

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from soundwhere.config import Config
    from soundwhere.evaluation.answerers import Answerer
    from soundwhere.methods.method import Network
    from soundwhere.metrics.frames import Grid
    from soundwhere.types import Scene

FULL, UNIFORM, ALONE, JOINT, CROSS, MINMAX, LITERAL = "full", "a", "b", "c", "d", "no-algorithm-1", "paper-loss"
PEEL, CONSTANT = "peel", "constant"
LABELS: Final = {
    FULL: "full",
    UNIFORM: "(a) uniform prior",
    ALONE: "(b) no stage 2",
    JOINT: "(c) joint training",
    CROSS: "(d) cross-sample negatives",
    MINMAX: "without Algorithm 1",
    LITERAL: "the paper's stage-2 loss",
    PEEL: "peel: stage 1, training-free",
    CONSTANT: "constant pair",
}
FIGURES: Final = ("cap", "ciou@0.1", "ciou@0.3", "auc")
JUDGED: Final = "ciou@0.3"
"""The figure by which the paper's text compares rows."""


PAPER: Final = {
    FULL: "SCAV, full",
    UNIFORM: "SCAV, uniform prior (a)",
    ALONE: "SCAV, no stage 2 (b)",
    JOINT: "SCAV, joint training (c)",
    LITERAL: "SCAV, full",  # the paper's own loss is the paper's full model
    CROSS: "SCAV, cross negatives (d)",
    MINMAX: "SCAV, without Algorithm 1",
}
"""What the paper's tables call the rows."""
TRUTHS: Final = {"mask": "vggsound-duet-mask", "box": "vggsound-duet"}
"""The paper's benchmark for each kind of truth."""
COMPARED: Final = (
    (FULL, UNIFORM),
    (FULL, ALONE),
    (FULL, JOINT),
    (LITERAL, CROSS),
    (FULL, MINMAX),
    (JOINT, ALONE),
    (ALONE, UNIFORM),
)
"""Pairs of rows that the paper orders, better one first. (d) changes the paper's loss, so it is compared with that."""

_SCENES = "In percent, frame-wise, minmax-0.5. Intervals: 95 %, bootstrap over scenes; one training per row."
_SWAPPED = "drop CAP: with the scene's own sound minus with another's, paired."
_PAPER = "The paper's lines are VGGSound-Duet, another data set at another scale: compare orderings, not numbers."
_ANY_MAP = "Which source is dominant is decided by the truth, so any single map shows a gap: see `analyse convergence`."


@dataclass(frozen=True)
class Scored:
    """One row on all scenes.

    Attributes:
        mask: Scored against the masks.
        box: Scored against the tightest boxes of the masks.
        swapped: Scored against the masks while hearing another scene.
    """

    mask: PairScores
    box: PairScores
    swapped: PairScores


def ablation_rows(recipe: Config) -> dict[str, Config]:
    """What each row trains, beginning with the full recipe; a row that would be another one again is left out.

    Cross-sample negatives (d) belong to the paper's stage-2 loss. Where the recipe has another one, the paper's loss is
    a row as well, and what (d) is compared with. Joint training (c) starts with an untrained ear and therefore takes
    the steps of both stages.
    """
    method = recipe.method
    assert isinstance(method, SCAVConfig)
    full = replace(method, stage="two")
    steps, batch_size = method.steps_one + method.steps_two, method.of_stage("two").batch_size
    literal = replace(full, stage_two="paper", cross_sample_negatives=False)
    rows = {
        FULL: full,
        UNIFORM: replace(full, prior="uniform"),
        JOINT: replace(method, stage="joint", steps_two=steps, batch_size=batch_size),
        LITERAL: literal,
        CROSS: replace(literal, cross_sample_negatives=True),
        MINMAX: replace(full, prior="minmax"),
    }
    first = {row: name for name, row in reversed(rows.items())}
    return {name: replace(recipe, method=row) for name, row in rows.items() if first[row] == name}


def train_stage_one(recipe: Config, folder: Path, *, download: bool = False) -> Path:
    """Train the stage 1 that all rows share, unless that is done, and return its file."""
    assert isinstance(recipe.method, SCAVConfig)
    # what only stage 2 reads does not make it another stage 1
    method = replace(recipe.method, stage="one", steps_two=1, batch_size_two=None, learning_rate_two=None)
    return train_row(replace(recipe, method=method), folder, download=download, gives=stage_file("one"))


def score_rows(
    networks: Mapping[str, Network],
    scenes: Sequence[Scene],
    grid: Grid,
    *,
    sigma_px: float = 70.0,
    tick: Callable[[int, int], None] | None = None,
) -> dict[str, Scored]:
    """Score every row, `peel` on the shared stage 1, and a constant pair.

    Args:
        networks: By row, in eval mode; the row of stage 1 alone is the one that is peeled.
        scenes: With masks of at least one source each.
        grid: Rows and columns of frames in the pictures.
        sigma_px: Width of the constant pair's Gaussians.
        tick: Called with the number of scenes done and that of all.

    Raises:
        DataError: A scene has no source.
    """
    rows = {name: Row(name) for name in networks}
    rows |= {PEEL: Row(ALONE, answer="peel")} if ALONE in networks else {}
    rows[CONSTANT] = Row(CONSTANT)
    blobs = Blobs(grid if grid != (1, 1) else (1, SOURCES), tuple(range(SOURCES)), sigma_px)
    asked: list[Answerer] = [
        *(NetworkAnswerer(name, network, grid, rows=_both(rows, name)) for name, network in networks.items()),
        InputFreeAnswerer(dict.fromkeys(_both(rows, CONSTANT), blobs), SOURCES, others=()),
    ]
    preset = find_preset("scav")
    found: dict[tuple[Row, str], list[PairScores]] = defaultdict(list)
    for view in views(scenes, ("shuffled",), tick=tick):
        if not view.truth.shape[1]:
            raise DataError(
                f"The scene {view.scenes[0].name} has no source.", "Choose a benchmark with sounding objects."
            )
        truths = {"mask": view.truth, "box": box_truth(view.truth.numpy())[1]}
        for row, answer in [pair for each in asked for pair in each.answer(view).items()]:
            for name, truth in truths.items():
                if name == "mask" or row.control == "own":
                    found[row, name].append(score(answer.maps, truth, preset, grid, torch.tensor(view.numbers)))
    kept = {key: concatenate(parts) for key, parts in found.items()}
    return {
        name: Scored(kept[row, "mask"], kept[row, "box"], kept[row.under("shuffled"), "mask"])
        for name, row in rows.items()
    }


def _both(rows: Mapping[str, Row], method: str) -> list[Row]:
    """A method's rows with their own sound and with another's."""
    own = [row for row in rows.values() if row.method == method]
    return [*own, *(row.under("shuffled") for row in own)]


def paper_figure(name: str, truth: str, figure: str) -> float:
    """The paper's figure of a row, in percent."""
    return find_published(PAPER[name], TRUTHS[truth]).figures[figure]


@dataclass(frozen=True)
class Ordering:
    """Two rows and who is better.

    Attributes:
        first: The row that the paper has ahead.
        second: The other.
        paper: The paper's difference on masks, in [0, 1].
        ours: Ours, paired.
    """

    first: str
    second: str
    paper: float
    ours: Interval

    @property
    def verdict(self) -> str:
        """Agrees, is undecided (the interval holds 0), or is the other way round."""
        if self.ours.low > 0:
            return "agrees"
        return "the other way round" if self.ours.high < 0 else "undecided"


def orderings(rows: Mapping[str, Scored], paper_loss: str = LITERAL) -> list[Ordering]:
    """What the paper orders among the rows that were scored; `paper_loss` is the row with the paper's stage-2 loss."""
    found = []
    for first, second in COMPARED:
        ahead = paper_loss if first == LITERAL else first
        if ahead in rows and second in rows:
            paper = (paper_figure(ahead, "mask", JUDGED) - paper_figure(second, "mask", JUDGED)) / 100
            ours = paired_differences(rows[ahead].mask, rows[second].mask)[JUDGED]
            found.append(Ordering(ahead, second, paper, ours))
    return found


def ordering_sentence(found: list[Ordering]) -> str:
    """Where our ordering agrees with the paper's and where not, in words."""
    if not found:
        return "Too few rows to compare orderings."
    said = {
        "agrees": "As in the paper",
        "undecided": "Undecided (the interval holds 0)",
        "the other way round": "The other way round from the paper",
    }
    parts = []
    for verdict, words in said.items():
        pairs = [
            f"{LABELS[each.first]} against {LABELS[each.second]} ({100 * each.ours.value:+.1f}, "
            f"paper {100 * each.paper:+.1f})"
            for each in found
            if each.verdict == verdict
        ]
        if pairs:
            parts.append(f"{words}: {'; '.join(pairs)}.")
    return f"Ordering by {figure_name(JUDGED)} on masks. " + " ".join(parts)


def ablation_results(rows: Mapping[str, Scored], paper_loss: str = LITERAL) -> Report:
    """The tables of all rows.

    Args:
        rows: Scored rows by name, all on the same scenes.
        paper_loss: The row that has the paper's stage-2 loss, which may be that of the full recipe.
    """
    ordered = {name: rows[name] for name in LABELS if name in rows}
    scored = {
        name: {truth: intervals(getattr(row, truth)) for truth in ("mask", "box")} for name, row in ordered.items()
    }
    drops = {name: paired_differences(row.mask, row.swapped)["cap"] for name, row in ordered.items()}
    found = orderings(rows, paper_loss)
    tables = [_scores(scored, drops, "mask"), _scores(scored, drops, "box"), _truths(ordered, scored)]
    values: dict[str, Any] = {
        "rows": {
            name: {
                "label": LABELS[name],
                **as_json(figures),
                "drop_cap": as_json(drops[name]),
                "box_minus_mask": as_json(paired_differences(ordered[name].box, ordered[name].mask)[JUDGED]),
                "paper": _paper(name) if name in PAPER else None,
            }
            for name, figures in scored.items()
        },
        "orderings": [{**asdict(each), "verdict": each.verdict} for each in found],
        "sentence": ordering_sentence(found),
    }
    if ALONE in rows and len(rows[ALONE].mask) == 2 * len(set(rows[ALONE].mask.scene.tolist())):
        gaps = {"masks": gap(rows[ALONE].mask), "boxes": gap(rows[ALONE].box)}
        ours = {f"ours, {truth}": each for truth, each in gaps.items()}
        tables.append(gap_table("Selective convergence of the shared stage 1", ours, _SCENES, _ANY_MAP))
        values["selective_convergence"] = {"paper": PAPER_CONVERGENCE, **as_json(gaps)}
    tables.append(_orderings(found))
    shown = {LABELS[name]: {truth: cells[JUDGED] for truth, cells in each.items()} for name, each in scored.items()}
    axis = f"{figure_name(JUDGED)} (%)"
    return Report(tables, values, {"ablation": lambda: rows_with_intervals(shown, "Ablation", axis)})


def _paper(name: str) -> dict[str, Any]:
    figures = {truth: [paper_figure(name, truth, figure) for figure in FIGURES] for truth in TRUTHS}
    return {"table": find_published(PAPER[name], TRUTHS["box"]).table, "figures": list(FIGURES), **figures}


def _scores(scored: dict[str, dict[str, dict[str, Interval]]], drops: dict[str, Interval], truth: str) -> Table:
    lines: list[tuple[Any, ...]] = []
    masks = truth == "mask"
    for name, truths in scored.items():
        drop = (percent(drops[name]),) if masks else ()
        lines.append((LABELS[name], "ours", *(percent(truths[truth][figure]) for figure in FIGURES), *drop))
        if name in PAPER:
            paper = (f"{paper_figure(name, truth, figure):.1f}" for figure in FIGURES)
            lines.append(("", f"paper, {_paper(name)['table']}", *paper, *(("-",) if masks else ())))
    title = "Ablation, scored by masks" if masks else "Ablation, scored by the boxes of the masks"
    head = ("row", "whose", *map(figure_name, FIGURES), *(("drop CAP",) if masks else ()))
    return Table(title, head, tuple(lines), (_SCENES, *((_SWAPPED,) if masks else ()), _PAPER))


def _truths(rows: Mapping[str, Scored], scored: dict[str, dict[str, dict[str, Interval]]]) -> Table:
    """Box against mask: the same maps under both truths."""
    lines: dict[str, dict[str, Any]] = {}
    for name, figures in scored.items():
        theirs = [paper_figure(name, truth, JUDGED) for truth in ("box", "mask")] if name in PAPER else None
        lines[LABELS[name]] = {
            **{truth: figures[truth][JUDGED] for truth in TRUTHS},
            "ours": paired_differences(rows[name].box, rows[name].mask)[JUDGED],
            "paper": "-" if theirs is None else f"{theirs[0] - theirs[1]:+.1f}",
        }
    columns = {truth: f"{figure_name(JUDGED)}, {truth}" for truth in TRUTHS}
    columns |= {whose: f"box - mask, {whose}" for whose in ("ours", "paper")}
    return figures_table("Box against mask", lines, columns, _SCENES, first="row")


def _orderings(found: list[Ordering]) -> Table:
    lines = tuple(
        (LABELS[each.first], LABELS[each.second], f"{100 * each.paper:+.1f}", percent(each.ours), each.verdict)
        for each in found
    )
    head = ("row", "against", "paper", "ours", "verdict")
    return Table(f"Differences in {figure_name(JUDGED)} on masks", head, lines, (ordering_sentence(found), _SCENES))
