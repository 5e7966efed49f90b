"""What an exported set looks like: how large things are and how they fill their boxes."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from soundwhere.annotate.verify import read_card
from soundwhere.data.annotation.boxes import repair_boxes
from soundwhere.data.annotation.masks import read_mask
from soundwhere.data.annotation.records import read_json
from soundwhere.errors import needing
from soundwhere.files import atomic_path

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_SHOWN_CLASSES = 12  # in figures; all stand in the table


@dataclass(frozen=True)
class MaskFacts:
    """One mask in numbers.

    Attributes:
        name: The clip.
        kind: Its class.
        size: Share of the picture that the mask covers, 0 to 1.
        fill: Share of the boxes that the mask covers; nan without boxes.
        inside: Share of the mask that lies in the boxes; nan without boxes.
    """

    name: str
    kind: str
    size: float
    fill: float
    inside: float


def mask_facts(root: Path) -> list[MaskFacts]:
    """The numbers of every mask in a set."""
    read_card(root)
    facts = []
    for number, entry in enumerate(read_json(root / "vggss.json"), 1):
        mask = read_mask(root / "masks" / "png" / f"{entry['file']}.png")
        boxes = repair_boxes(entry["bbox"], place=f"vggss.json, entry {number}").mask(mask.shape)
        covered, area = int((mask & boxes).sum()), int(boxes.sum())
        facts.append(
            MaskFacts(
                entry["file"],
                entry["class"],
                float(mask.mean()),
                covered / area if area else float("nan"),
                covered / int(mask.sum()) if area else float("nan"),
            )
        )
    return facts


def class_table(facts: Sequence[MaskFacts]) -> list[tuple[str, int, float, float, float]]:
    """Class, frames, mean size, mean fill and mean share inside the boxes; all classes together come last."""

    def row(kind: str, part: Sequence[MaskFacts]) -> tuple[str, int, float, float, float]:
        boxed = [fact for fact in part if not np.isnan(fact.fill)]
        means = [float(np.mean([getattr(fact, name) for fact in boxed])) if boxed else float("nan") for name in _BOXED]
        return kind, len(part), float(np.mean([fact.size for fact in part])), means[0], means[1]

    kinds = sorted({fact.kind for fact in facts})
    return [*(row(kind, [fact for fact in facts if fact.kind == kind]) for kind in kinds), row("all", facts)]


_BOXED = ("fill", "inside")


def write_figures(facts: Sequence[MaskFacts], path: Path) -> None:
    """Histograms of size and fill, all together and for the commonest classes.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    with needing("matplotlib", "report"):
        from matplotlib.figure import Figure
        from matplotlib.ticker import MaxNLocator, PercentFormatter
    kinds = [kind for kind, _ in Counter(fact.kind for fact in facts).most_common(_SHOWN_CLASSES)]
    figure = Figure(figsize=(9, 1.6 + 1.1 * len(kinds)), layout="constrained")
    axes: Any = figure.subplots(1 + len(kinds), 2, sharex=True, squeeze=False)
    for row, kind in enumerate(["all classes", *kinds]):
        part = [fact for fact in facts if row == 0 or fact.kind == kind]
        for column, (name, colour) in enumerate((("size", "#ff7a1a"), ("fill", "#2f80ed"))):
            values = [value for fact in part if not np.isnan(value := getattr(fact, name))]
            axis = axes[row, column]
            axis.hist(values, bins=np.linspace(0, 1, 21), color=colour, edgecolor="white", linewidth=0.6)
            if values:
                axis.axvline(float(np.median(values)), color="#1d1f24", linewidth=1, linestyle=(0, (3, 2)))
            axis.set_title(f"{kind} ({len(values)})", fontsize=9, loc="left")
            axis.spines[["top", "right"]].set_visible(False)
            axis.tick_params(labelsize=8)
            axis.set_xlim(0, 1)
            axis.xaxis.set_major_formatter(PercentFormatter(1))
            axis.yaxis.set_major_locator(MaxNLocator(3, integer=True))
    axes[-1, 0].set_xlabel("share of the picture that the mask covers", fontsize=9)
    axes[-1, 1].set_xlabel("share of the boxes that the mask fills", fontsize=9)
    figure.supylabel("frames (dashed: median)", fontsize=9)
    with atomic_path(path) as temporary:
        figure.savefig(temporary, dpi=110)
