"""Scores as one static page: tables, scores against size and level, and scenes to look at."""

from __future__ import annotations

import base64
import html
import io
from dataclasses import dataclass, field
from functools import cached_property
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

import numpy as np
from PIL import Image as Pillow

from soundwhere.errors import MissingExtraError, needing
from soundwhere.evaluation.qualitative import scene_sheet
from soundwhere.evaluation.rows import Row
from soundwhere.files import write_text
from soundwhere.metrics.report import to_html

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from soundwhere.evaluation.answerers import Method
    from soundwhere.evaluation.scoring import Evaluation
    from soundwhere.metrics.report import Table
    from soundwhere.types import Image, Scene

    Values = NDArray[np.float64]

SHOWN: Final = 4  # scenes of each kind
_BINS: Final = 8
_DRAWN: Final[WeakKeyDictionary[Figure, bytes]] = WeakKeyDictionary()
_WIDEST_PX: Final = 3000  # wider pictures are not shrunk to the page, but moved in it
_PAGE: Final = """<!doctype html><html lang="en"><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1"><title>{title}</title>
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; max-width: 96rem; margin: 2rem auto; padding: 0 1rem; color: #222 }}
table {{ border-collapse: collapse; margin: 1rem 0; display: block; overflow-x: auto }}
td, th {{ padding: .2rem .5rem; text-align: right }} th {{ vertical-align: bottom }} td {{ white-space: nowrap }}
td:first-child, th:first-child, .words {{ text-align: left }} td.words {{ white-space: normal }}
td:first-child {{ min-width: 8rem }} td {{ max-width: 32rem; vertical-align: top }} h2 {{ margin-top: 3rem }}
tr:first-child {{ border-bottom: 2px solid #222 }} tr.group td {{ border-top: 1px solid #bbb }}
tr.faint td, tr.faint small {{ color: #8a8a8a }}
small, .note {{ color: #666 }} .note {{ margin: .2rem 0 }} img {{ max-width: 100% }}
dt {{ float: left; clear: left; width: 9rem }} dd {{ margin-left: 10rem }}
.wide {{ overflow-x: auto }} .wide img {{ max-width: none }}
</style>
<h1>{title}</h1>
<dl>{facts}</dl>
{body}
</html>
"""


@dataclass(frozen=True)
class Section:
    """A part of a page.

    Attributes:
        title: Its heading; none if empty.
        words: What is to be said before the tables, by question.
        tables: In their order.
        pictures: Shown below them, by heading: photos or charts.
    """

    title: str = ""
    words: Mapping[str, str] = field(default_factory=dict)
    tables: Sequence[Table] = ()
    pictures: Mapping[str, Image | Figure] = field(default_factory=dict)

    @cached_property
    def body(self) -> str:
        """What stands below its heading, made once: a page that grows is written again and again."""
        level = 3 if self.title else 2
        parts = [f"<p><b>{html.escape(key)}</b> {html.escape(text)}</p>" for key, text in self.words.items()]
        parts += [to_html(table, level) for table in self.tables]
        parts += [
            f"<h{level}>{html.escape(heading)}</h{level}>{_inside(each, heading)}"
            for heading, each in self.pictures.items()
        ]
        return "\n".join(parts)


def write_page(path: Path, title: str, facts: Mapping[str, str], sections: Sequence[Section]) -> None:
    """Write a page, with links at its head to the parts that have a title, everything in one file.

    Args:
        path: The HTML file.
        title: Its head.
        facts: Shown above the parts, by name.
        sections: The parts.
    """
    shown = "".join(f"<dt>{html.escape(key)}</dt><dd>{html.escape(value)}</dd>" for key, value in facts.items())
    titles = [(number, section.title) for number, section in enumerate(sections, 1) if section.title]
    links = [f'<a href="#part-{number}">{html.escape(each)}</a>' for number, each in titles]
    parts = [f"<nav>{' &middot; '.join(links)}</nav>"] if links else []
    for number, section in enumerate(sections, 1):
        if section.title:
            parts.append(f'<h2 id="part-{number}">{html.escape(section.title)}</h2>')
        parts.append(section.body)
    write_text(path, _PAGE.format(title=html.escape(title), facts=shown, body="\n".join(parts)))


def what_is_missing() -> MissingExtraError | None:
    """What the page cannot be drawn without, if it is not installed."""
    return MissingExtraError("matplotlib", "report") if find_spec("matplotlib") is None else None


def new_figure(width: float, height: float) -> Figure:
    """An empty figure of a size in inches.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    with needing("matplotlib", "report"):
        from matplotlib.figure import Figure
    return Figure(figsize=(width, height), layout="constrained")


def curves(evaluation: Evaluation, rows: Sequence[Row]) -> dict[str, Figure]:
    """IoU against the size of the object and the difference in level, one line per row, by heading.

    Args:
        evaluation: What was scored.
        rows: Whose scores are drawn; every pair of the first as a dot.
    """
    sizes, levels = {}, {}
    for row in rows:
        pairs = evaluation.scores[row].pairs
        kept = pairs.source.numpy() >= 0  # a surplus map has no source
        scene, source, iou = pairs.scene.numpy()[kept], pairs.source.numpy()[kept], pairs.iou.numpy()[kept]
        places = list(zip(scene.tolist(), source.tolist(), strict=True))
        sizes[row] = np.array([evaluation.facts[s].areas[k] for s, k in places]), iou
        level = np.array([evaluation.facts[s].level_difference_db for s, _ in places], dtype=np.float64)
        known = ~np.isnan(level)
        levels[row] = level[known], iou[known]
    lines = {
        ("Score against object size", "share of the picture"): sizes,
        ("Score against level difference", "dB between the loudest and the quietest source"): levels,
    }
    return {
        heading: _plot(each, label)
        for (heading, label), each in lines.items()
        if any(len(np.unique(x)) > 1 for x, _ in each.values())
    }


def sheets(
    evaluation: Evaluation,
    scenes: Sequence[Scene],
    methods: Sequence[Method],
    *,
    apart: bool = True,
    height_px: int | None = None,
) -> dict[str, Image]:
    """The best, the worst and some random scenes of the last method, by heading.

    Args:
        evaluation: What was scored.
        scenes: The scenes scored, in the same order.
        methods: Whose maps are drawn.
        apart: As in `scene_sheet`.
        height_px: As in `scene_sheet`.
    """
    label = methods[-1].label
    pairs = evaluation.scores[Row(label)].pairs
    counts = np.bincount(pairs.scene.numpy(), minlength=len(evaluation.names))
    totals = np.bincount(pairs.scene.numpy(), weights=pairs.iou.numpy(), minlength=len(evaluation.names))
    known = np.flatnonzero(counts)
    if not len(known):
        return {}
    order = known[np.argsort(-totals[known] / counts[known], kind="stable")]
    drawn = np.random.default_rng(0).permutation(known)[:SHOWN]
    chosen = {
        f"Best scenes of {label}": order[:SHOWN].tolist(),
        f"Worst scenes of {label}": order[::-1][:SHOWN].tolist(),
        "Random scenes (seed 0)": sorted(drawn.tolist()),
    }
    return {
        heading: scene_sheet([scenes[place] for place in places], methods, apart=apart, height_px=height_px)
        for heading, places in chosen.items()
    }


def _plot(lines: Mapping[Row, tuple[Values, Values]], label: str) -> Figure:
    """Every pair as a dot of the first row, and the mean IoU of equally many pairs for every row."""
    figure = new_figure(8, 3.4)
    axes = figure.add_subplot(xlabel=label, ylabel="IoU")
    for number, (row, (x, iou)) in enumerate(lines.items()):
        colour = f"C{number}"
        if not number:
            axes.plot(x, iou, ".", markersize=2, alpha=0.3, color=colour)
        groups = [group for group in np.array_split(np.argsort(x, kind="stable"), _BINS) if len(group)]
        middles = [np.median(x[group]) for group in groups]
        axes.plot(middles, [iou[group].mean() for group in groups], "o-", markersize=4, color=colour, label=str(row))
    axes.legend(fontsize=8, frameon=False)
    return figure


def as_png(figure: Figure) -> bytes:
    """A chart as PNG; drawn once, as that takes long and a chart stands in a file and on pages."""
    if figure not in _DRAWN:
        file = io.BytesIO()
        figure.savefig(file, dpi=110, format="png")
        _DRAWN[figure] = file.getvalue()
    return _DRAWN[figure]


def _inside(picture: Image | Figure, description: str) -> str:
    """A picture as a part of the page: a photo as JPEG, a chart as PNG."""
    file = io.BytesIO()
    if isinstance(picture, np.ndarray):
        kind = "jpeg"
        Pillow.fromarray(picture).save(file, "JPEG", quality=88)
    else:
        kind = "png"
        file.write(as_png(picture))
    content = base64.b64encode(file.getvalue()).decode()
    image = f'<img alt="{html.escape(description)}" src="data:image/{kind};base64,{content}">'
    wide = isinstance(picture, np.ndarray) and picture.shape[1] > _WIDEST_PX
    if not wide:
        return image
    return f"<p class=note>Wider than the page: it moves sideways.</p><div class=wide tabindex=0>{image}</div>"
