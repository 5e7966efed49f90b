"""What a training run on the made-up world learnt: scores beside the controls, selective convergence, pictures."""

from __future__ import annotations

import html
import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

import torch
from PIL import Image as PILImage

from soundwhere import __version__
from soundwhere.analysis.convergence import convergence
from soundwhere.data.synthetic.scenes import SPLIT_SEEDS, WorldScenes
from soundwhere.data.synthetic.world import World
from soundwhere.engine.evaluate import fixed_answer, model_answer, score, score_with_controls, stage_one_answer
from soundwhere.errors import MissingExtraError
from soundwhere.files import atomic_path, write_json, write_text
from soundwhere.media.draw import SOURCE_COLOURS, contact_sheet, outline, overlay
from soundwhere.metrics.baselines import constant_pair
from soundwhere.metrics.bootstrap import intervals
from soundwhere.metrics.pairs import PairScores, summarise
from soundwhere.models.prior import normalise_range
from soundwhere.models.registry import load_model

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from soundwhere.metrics.bootstrap import Interval
    from soundwhere.models.scav import SCAV
    from soundwhere.types import Scene

SCENES: Final = 300
SHOWN: Final = 8
COLUMNS: Final = ("cap", "ciou@0.1", "ciou@0.3", "ciou@0.5", "auc", "pointing")
SIGMAS: Final = (0.08, 0.12, 0.18, 0.25, 0.35)  # of the constant pair, as shares of the picture's side

Table = dict[str, dict[str, "Interval"]]


def write_training_report(run: Path) -> Path:
    """Score a run's best model on held-out scenes and write `report.html`, `report.json` and their pictures into it."""
    model = load_model(run)
    side = model.config.frame_px
    _save_curves(run / "curves.png", run / "metrics.jsonl")  # first, because it needs an extra that may be missing
    # made once, not anew for every answer
    val, test = (list(WorldScenes(World(seed, (side, side)), SCENES)) for seed in SPLIT_SEEDS.values())
    sigma = best_sigma(val, side)
    scores = _table(score_with_controls(model, test, sigma))
    gaps = {
        f"{name}, {which} source": pairs
        for name, both in convergence(model, test, sigma).items()
        for which, pairs in zip(("dominant", "second"), both, strict=True)
    }
    facts = {
        "data": f"made-up world, free layout, 2 sounding and 1 silent thing, seed {SPLIT_SEEDS['test']}",
        "split": "test (the constant pair's width was chosen on val)",
        "protocol": "masks, frame-wise, Hungarian matching",
        "binarisation": "minmax-0.5",
        "scenes": SCENES,
        "constant pair": f"sigma {sigma:.0f} px",
        "intervals": "95 %, bootstrap over scenes, seed 0",
        "version": __version__,
    }
    _save_picture(run / "scenes.png", model, test[:SHOWN])
    tables = {"Both sources": scores, "Selective convergence of stage 1": _table(gaps)}
    values = {
        title: {row: {k: asdict(v) for k, v in cells.items()} for row, cells in table.items()}
        for title, table in tables.items()
    }
    write_json(run / "report.json", {"facts": facts, "tables": values})
    write_text(run / "report.html", _page(facts, tables))
    return run / "report.html"


def best_sigma(scenes: Sequence[Scene], side: int) -> float:
    """The width at which the constant pair scores best (CIoU@0.3, then CAP)."""

    def quality(sigma: float) -> tuple[float, float]:
        figures = summarise(score(fixed_answer(lambda height, width: constant_pair(height, width, sigma)), scenes))
        return figures["ciou@0.3"], figures["cap"]

    return max((share * side for share in SIGMAS), key=quality)


def _table(rows: dict[str, PairScores]) -> Table:
    return {name: {k: v for k, v in intervals(pairs).items() if k in COLUMNS} for name, pairs in rows.items()}


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
td:first-child, th:first-child {{ text-align: left }} tr:first-child {{ border-bottom: 2px solid #222 }}
tr.first {{ font-weight: 600 }} small {{ color: #777 }} img {{ max-width: 100% }}
</style>
<h1>Training report</h1>
<p>{facts}</p>
{tables}
<h2>Held-out scenes</h2><p>Truth outlined; maps stretched to [0, 1] as in scoring.</p>
<img src="scenes.png" alt="scenes">
<h2>Loss</h2><img src="curves.png" alt="loss curves">
"""


def _page(facts: dict[str, Any], tables: dict[str, Table]) -> str:
    named = " &middot; ".join(f"{html.escape(name)}: {html.escape(str(value))}" for name, value in facts.items())
    parts = []
    for title, table in tables.items():
        rows = ["<tr><th>answer</th>" + "".join(f"<th>{column}</th>" for column in COLUMNS) + "</tr>"]
        for number, (name, cells) in enumerate(table.items()):
            values = "".join(
                f"<td>{100 * cells[c].value:.1f}<br><small>{100 * cells[c].low:.1f} to {100 * cells[c].high:.1f}"
                "</small></td>"
                for c in COLUMNS
            )
            rows.append(f"<tr{' class=first' if not number else ''}><td>{html.escape(name)}</td>{values}</tr>")
        parts.append(f"<h2>{html.escape(title)}</h2><table>{''.join(rows)}</table>")
    return _PAGE.format(facts=named, tables="\n".join(parts))
