"""What a training run on the made-up world learnt: scores beside the controls, selective convergence, pictures."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Final

import torch
from PIL import Image as PILImage

from soundwhere import __version__
from soundwhere.analysis.convergence import convergence
from soundwhere.data.synthetic.scenes import SPLIT_SEEDS, WorldScenes
from soundwhere.data.synthetic.world import World
from soundwhere.errors import MissingExtraError
from soundwhere.evaluation.evaluate import fixed_answer, model_answer, score, score_with_controls, stage_one_answer
from soundwhere.files import atomic_path, write_json, write_text
from soundwhere.media.draw import SOURCE_COLOURS, contact_sheet, outline, overlay
from soundwhere.methods.scav.prior import normalise_range
from soundwhere.metrics.baselines import constant_pair
from soundwhere.metrics.bootstrap import Interval, intervals
from soundwhere.metrics.pairs import PairScores, summarise
from soundwhere.metrics.report import Table, TableRow, figure_name, percent, to_html, to_markdown
from soundwhere.models.registry import load_model

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from soundwhere.methods.scav.model import SCAV
    from soundwhere.types import Scene

SCENES: Final = 300
SILENT: Final = 2  # things that are seen but not heard: pointing at any two things is right half of the time
SHOWN: Final = 8
COLUMNS: Final = ("cap", "ciou@0.1", "ciou@0.3", "ciou@0.5", "auc", "pointing")
SIGMAS: Final = (0.08, 0.12, 0.18, 0.25, 0.35)  # of the constant pair, as shares of the picture's side

TITLES: Final = ("Both sources", "Selective convergence of stage 1")
# What each control lacks
KINDS: Final = {
    "model": "sees and hears",
    "audio-shuffled": "deaf",
    "silence": "deaf",
    "picture-shuffled": "blind",
    "feature norm": "image-only",
    "constant pair": "input-free",
    "constant": "input-free",
    "random maps": "input-free",
    "random": "input-free",
}


def write_training_report(run: Path) -> tuple[Path, list[Table]]:
    """Score a run's best model on held-out scenes and write `report.html`, `.json` and `.md` and pictures into it.

    Returns:
        The page, and the tables on it.
    """
    model = load_model(run)
    side = model.config.frame_px
    _save_curves(run / "curves.png", run / "metrics.jsonl")  # first, because it needs an extra that may be missing
    # made once, not anew for every answer
    val, test = (list(WorldScenes(World(seed, (side, side)), SCENES, silent=SILENT)) for seed in SPLIT_SEEDS.values())
    sigma = best_sigma(val, side)
    scored = score_with_controls(model, test, sigma)
    gaps = {
        f"{name}, {which} source": pairs
        for name, both in convergence(model, test, sigma).items()
        for which, pairs in zip(("dominant", "second"), both, strict=True)
    }
    found = {
        title: {row: _figures(pairs) for row, pairs in rows.items()}
        for title, rows in zip(TITLES, (scored, gaps), strict=True)
    }
    facts = {
        "data": f"made-up world, free layout, 2 sounding and {SILENT} silent things, seed {SPLIT_SEEDS['test']}",
        "split": "test (the constant pair's width was chosen on val)",
        "protocol": "masks, frame-wise, Hungarian matching",
        "binarisation": "minmax-0.5",
        "scenes": SCENES,
        "constant pair": f"sigma {sigma:.0f} px",
        "intervals": "95 %, bootstrap over scenes, seed 0",
        "version": __version__,
    }
    _save_picture(run / "scenes.png", model, test[:SHOWN])
    tables = [_table(title, rows) for title, rows in found.items()]
    tables[0] = replace(tables[0], notes=tuple(f"{name}: {value}" for name, value in facts.items()))
    values = {
        title: {row: {k: asdict(v) for k, v in cells.items()} for row, cells in rows.items()}
        for title, rows in found.items()
    }
    write_json(run / "report.json", {"facts": facts, "tables": values})
    write_text(run / "report.md", "\n".join(map(to_markdown, tables)))
    write_text(run / "report.html", _PAGE.format(tables="\n".join(map(to_html, tables))))
    return run / "report.html", tables


def best_sigma(scenes: Sequence[Scene], side: int) -> float:
    """The width at which the constant pair scores best (CIoU@0.3, then CAP)."""

    def quality(sigma: float) -> tuple[float, float]:
        figures = summarise(score(fixed_answer(lambda height, width: constant_pair(height, width, sigma)), scenes))
        return figures["ciou@0.3"], figures["cap"]

    return max((share * side for share in SIGMAS), key=quality)


def _figures(pairs: PairScores) -> dict[str, Interval]:
    found = intervals(pairs)
    return {column: found[column] for column in COLUMNS}


def _table(title: str, rows: dict[str, dict[str, Interval]]) -> Table:
    """One line per answer, each figure with its interval."""
    lines = [
        TableRow(label, KINDS.get(label.partition(",")[0], ""), tuple(map(percent, cells.values())))
        for label, cells in rows.items()
    ]
    return Table(title, tuple(map(figure_name, COLUMNS)), tuple(lines))


def _save_picture(path: Path, model: SCAV, scenes: list[Scene]) -> None:
    """Scenes with the truth outlined, stage 1's map, and the map of each source, all stretched as in scoring."""
    maps = torch.cat([stage_one_answer(model)(scenes), model_answer(model)(scenes)], dim=1)
    rows = []
    for scene, scene_maps in zip(scenes, normalise_range(maps.flatten(0, 1)).view_as(maps).numpy(), strict=True):
        truth = scene.image
        for mask, colour in zip(scene.masks, SOURCE_COLOURS.values(), strict=False):
            truth = outline(truth, mask, colour)
        rows.append([truth, *(overlay(scene.image, one[None]) for one in scene_maps)])
    labels = ["truth", "stage 1", *(f"source {number + 1}" for number in range(model.sources))]
    sheet = contact_sheet(rows, [labels] * len(rows))
    with atomic_path(path) as temporary:
        PILImage.fromarray(sheet).save(temporary)


def _save_curves(path: Path, metrics: Path) -> None:
    """The loss of each stage over its steps."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("matplotlib", "report") from error

    lines = [json.loads(line) for line in metrics.read_text(encoding="utf-8").splitlines()]
    stages = list(dict.fromkeys(line["stage"] for line in lines))
    figure = Figure(figsize=(9, 3), layout="constrained")
    for place, stage in enumerate(stages, 1):
        axes = figure.add_subplot(1, len(stages), place, title=f"stage {stage}", xlabel="step", ylabel="loss")
        steps = [line for line in lines if line["stage"] == stage]
        axes.plot([line["step"] for line in steps], [line["loss"] for line in steps], linewidth=1)
    with atomic_path(path) as temporary:
        figure.savefig(temporary, dpi=100)


_PAGE = """<!doctype html><meta charset="utf-8"><title>soundwhere: training report</title>
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #222 }}
table {{ border-collapse: collapse; margin: 1rem 0 }} td, th {{ padding: .25rem .8rem; text-align: right }}
td:nth-child(-n+2), th:nth-child(-n+2) {{ text-align: left }}
.note {{ margin: 0; color: #777 }}
tr:first-child {{ border-bottom: 2px solid #222 }}
small {{ color: #777 }} img {{ max-width: 100% }}
</style>
<h1>Training report</h1>
{tables}
<h2>Held-out scenes</h2><p>Truth outlined; maps stretched to [0, 1] as in scoring.</p>
<img src="scenes.png" alt="scenes">
<h2>Loss</h2><img src="curves.png" alt="loss curves">
"""
