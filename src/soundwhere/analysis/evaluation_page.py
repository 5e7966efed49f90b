"""The evaluation as one static page: tables, scores against size and level, and scenes to look at."""

from __future__ import annotations

import base64
import html
import io
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

import numpy as np
from PIL import Image as Pillow

from soundwhere.analysis.qualitative import scene_sheet
from soundwhere.errors import MissingExtraError
from soundwhere.files import write_text
from soundwhere.metrics.report import to_html

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from soundwhere.evaluation.evaluation import Evaluation
    from soundwhere.evaluation.probes import Method
    from soundwhere.metrics.report import Table
    from soundwhere.types import Image, Scene

    Values = NDArray[np.float64]

SHOWN: Final = 4  # scenes of each kind
_BINS: Final = 8
_PAGE: Final = """<!doctype html><html lang="en"><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1"><title>{title}</title>
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; max-width: 96rem; margin: 2rem auto; padding: 0 1rem; color: #222 }}
table {{ border-collapse: collapse; margin: 1rem 0; display: block; overflow-x: auto }}
td, th {{ padding: .2rem .5rem; text-align: right; white-space: nowrap }}
td:nth-child(-n+2), th:nth-child(-n+2) {{ text-align: left }}
tr:first-child {{ border-bottom: 2px solid #222 }} tr.group td {{ border-top: 1px solid #bbb }}
small, .note {{ color: #666 }} .note {{ margin: .2rem 0 }} img {{ max-width: 100% }} dt {{ float: left; width: 9rem }}
</style>
<h1>{title}</h1>
<dl>{facts}</dl>
{body}
</html>
"""


def what_is_missing() -> MissingExtraError | None:
    """What the page cannot be drawn without, if it is not installed."""
    return MissingExtraError("matplotlib", "report") if find_spec("matplotlib") is None else None


def write_evaluation_page(
    path: Path,
    title: str,
    facts: Mapping[str, str],
    tables: Sequence[Table],
    evaluation: Evaluation,
    scenes: Sequence[Scene],
    methods: Sequence[Method],
    compared: Sequence[str],
    seed: int = 0,
) -> None:
    """Write the page, everything in one file.

    Args:
        path: The HTML file.
        title: Its head.
        facts: Shown above the tables, by name.
        tables: In their order.
        evaluation: What was scored.
        scenes: The scenes scored, in the same order.
        methods: The last one's scenes are shown; none if only answers without input were scored.
        compared: Rows whose scores are drawn against size and level.
        seed: Decides which scenes are shown as random.
    """
    parts = [to_html(table) for table in tables]
    parts += _curves(evaluation, [name for name in compared if len(evaluation.scores[name].pairs)])
    if methods and len(evaluation.scores[methods[-1].label].pairs):
        for heading, places in _chosen(evaluation, methods[-1].label, seed).items():
            sheet = scene_sheet([scenes[place] for place in places], methods)
            parts.append(f"<h2>{html.escape(heading)}</h2>{_photo(sheet, heading)}")
    shown = "".join(f"<dt>{html.escape(key)}</dt><dd>{html.escape(value)}</dd>" for key, value in facts.items())
    write_text(path, _PAGE.format(title=html.escape(title), facts=shown, body="\n".join(parts)))


def _chosen(evaluation: Evaluation, label: str, seed: int) -> dict[str, list[int]]:
    """Scenes to show by heading: the best and the worst by mean IoU, and some at random."""
    pairs = evaluation.scores[label].pairs
    counts = np.bincount(pairs.scene.numpy(), minlength=len(evaluation.names))
    totals = np.bincount(pairs.scene.numpy(), weights=pairs.iou.numpy(), minlength=len(evaluation.names))
    known = np.flatnonzero(counts)
    order = known[np.argsort(-totals[known] / counts[known], kind="stable")]
    drawn = np.random.default_rng(seed).permutation(known)[:SHOWN]
    return {
        f"Best scenes of {label}": order[:SHOWN].tolist(),
        f"Worst scenes of {label}": order[::-1][:SHOWN].tolist(),
        f"Random scenes (seed {seed})": sorted(drawn.tolist()),
    }


def _curves(evaluation: Evaluation, names: Sequence[str]) -> list[str]:
    """IoU against the size of the object and the difference in level, one line per row."""
    sizes, levels = {}, {}
    for name in names:
        pairs = evaluation.scores[name].pairs
        kept = pairs.source.numpy() >= 0  # a surplus map has no source
        scene, source, iou = pairs.scene.numpy()[kept], pairs.source.numpy()[kept], pairs.iou.numpy()[kept]
        places = list(zip(scene.tolist(), source.tolist(), strict=True))
        sizes[name] = np.array([evaluation.facts[s].areas[k] for s, k in places]), iou
        known = np.array([evaluation.facts[s].level_difference_db is not None for s, _ in places], dtype=bool)
        level = np.array([evaluation.facts[s].level_difference_db or 0.0 for s, _ in places])
        levels[name] = level[known], iou[known]
    parts = [("Score against object size", "share of the picture", sizes)]
    parts += [("Score against level difference", "dB between the loudest and the quietest source", levels)]
    return [
        f"<h2>{heading}</h2>{_plot(lines, label, heading)}"
        for heading, label, lines in parts
        if any(len(np.unique(x)) > 1 for x, _ in lines.values())
    ]


def _plot(lines: Mapping[str, tuple[Values, Values]], label: str, heading: str) -> str:
    """Every pair as a dot of the first row, and the mean IoU of equally many pairs for every row."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 3.4), layout="constrained")
    axes = figure.add_subplot(xlabel=label, ylabel="IoU")
    for number, (name, (x, iou)) in enumerate(lines.items()):
        colour = f"C{number}"
        if not number:
            axes.plot(x, iou, ".", markersize=2, alpha=0.3, color=colour)
        groups = [group for group in np.array_split(np.argsort(x, kind="stable"), _BINS) if len(group)]
        middles = [np.median(x[group]) for group in groups]
        axes.plot(middles, [iou[group].mean() for group in groups], "o-", markersize=4, color=colour, label=name)
    axes.legend(fontsize=8, frameon=False)
    file = io.BytesIO()
    figure.savefig(file, dpi=110, format="png")
    return _inside(file, "png", heading)


def _photo(pixels: Image, description: str) -> str:
    file = io.BytesIO()
    Pillow.fromarray(pixels).save(file, "JPEG", quality=88)
    return _inside(file, "jpeg", description)


def _inside(file: io.BytesIO, kind: str, description: str) -> str:
    """A picture as a part of the page."""
    content = base64.b64encode(file.getvalue()).decode()
    return f'<img alt="{html.escape(description)}" src="data:image/{kind};base64,{content}">'
