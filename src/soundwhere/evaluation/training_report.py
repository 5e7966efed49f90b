"""What a training run learnt: scores on the made-up world beside the controls, selective convergence, pictures."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from PIL import Image as Pillow

from soundwhere import __version__
from soundwhere.constants import FRAME_PX
from soundwhere.data.synthetic.scenes import SPLIT_SEEDS, WorldScenes
from soundwhere.data.synthetic.world import World
from soundwhere.evaluation.answerers import RANDOM, InputFreeAnswerer
from soundwhere.evaluation.constant import SIGMAS_PX, Blobs, choose_constant
from soundwhere.evaluation.network_answerer import NetworkAnswerer, watched
from soundwhere.evaluation.page import Section, new_figure, write_page
from soundwhere.evaluation.qualitative import scene_sheet
from soundwhere.evaluation.rows import FEATURE_NORM, Row
from soundwhere.evaluation.scoring import evaluate
from soundwhere.evaluation.summary import as_json, summarise_evaluation
from soundwhere.evaluation.tables import evaluation_tables
from soundwhere.files import atomic_path, write_json, write_text
from soundwhere.methods.files import load_model
from soundwhere.metrics.bootstrap import intervals
from soundwhere.metrics.dominance import by_dominance
from soundwhere.metrics.presets import find_preset
from soundwhere.metrics.report import figure_names, figures_table, to_markdown

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.figure import Figure

    from soundwhere.evaluation.answerers import Answerer
    from soundwhere.evaluation.scoring import Evaluation
    from soundwhere.evaluation.summary import Figures
    from soundwhere.metrics.report import Table
    from soundwhere.types import Image

SCENES: Final = 300
SILENT: Final = 2  # things that are seen but not heard: pointing at any two things is right half of the time
SHOWN: Final = 8
COLUMNS: Final = ("cap", "ciou@0.1", "ciou@0.3", "ciou@0.5", "auc", "pointing")
MODEL, ONE_MAP = "model", "one map"  # labels


def write_training_report(run: Path) -> tuple[Path, list[Table]]:
    """Score a run's best model on held-out scenes and write `report.html`, `.json` and `.md` and pictures into it.

    Returns:
        The page, and the tables on it.
    """
    curves = loss_curves(run / "metrics.jsonl")  # first, because it needs an extra that may be missing
    network = load_model(run)
    side = network.config.frame_px
    val, test = (WorldScenes(World(seed, (side, side)), SCENES, silent=SILENT) for seed in SPLIT_SEEDS.values())
    preset, grid = find_preset("scav"), (1, 1)
    widths = tuple(sigma * side / FRAME_PX for sigma in SIGMAS_PX)
    constant = choose_constant(val, grid, network.sources, preset, "val", sigmas_px=widths)
    model = NetworkAnswerer(MODEL, network, grid)
    seen = [NetworkAnswerer(name, network, grid, rows=[Row(MODEL, answer=name)]) for name in watched(network)]
    blob = {Row(ONE_MAP, answer="constant blob"): Blobs(grid, (0,), constant.blobs.sigma_px)}
    single: list[Answerer] = [*seen, InputFreeAnswerer(blob, 1, [Row(ONE_MAP, answer=RANDOM.answer)])]
    names = [f"made-up-{SPLIT_SEEDS['test']}-{number}" for number in range(SCENES)]
    asked: list[Answerer] = [model, InputFreeAnswerer(constant.rows, network.sources), *single]
    found = evaluate(test, names, asked, preset, grid)
    aside = {row for each in single for row in each.rows}
    both = replace(found, scores={row: scores for row, scores in found.scores.items() if row not in aside})
    summary = summarise_evaluation(both, constant)
    gaps = {each.label: _gaps(found, each.label) for each in seen}
    tables = evaluation_tables(both, summary, "Both sources")
    tables += [figures_table(_gap_title(name), rows, figure_names(COLUMNS)) for name, rows in gaps.items()]
    facts = {
        "data": f"made-up world, free layout, 2 sounding and {SILENT} silent things, seed {SPLIT_SEEDS['test']}",
        "split": "test (the constant answer was chosen on val)",
        "protocol": "masks, frame-wise, Hungarian matching",
        "binarisation": preset.rule,
        "scenes": SCENES,
        "intervals": "95 %, bootstrap over scenes, seed 0",
        "version": __version__,
    }
    sheet = scene_sheet(test[:SHOWN], [*seen, model])
    values = {"Both sources": as_json(summary.scores)}
    values |= {_gap_title(name): as_json(rows) for name, rows in gaps.items()}
    write_json(run / "report.json", {"facts": facts, "tables": values})
    write_text(run / "report.md", "\n".join(map(to_markdown, tables)))
    with atomic_path(run / "scenes.png") as temporary:
        Pillow.fromarray(sheet).save(temporary)
    with atomic_path(run / "curves.png") as temporary:
        curves.savefig(temporary, dpi=100)
    shown = {name: str(value) for name, value in facts.items()}
    heading = "Held-out scenes, the truth outlined, maps stretched as in scoring"
    pictures: dict[str, Image | Figure] = {heading: sheet, "Loss": curves}
    write_page(run / "report.html", "Training report", shown, [Section(tables=tables, pictures=pictures)])
    return run / "report.html", tables


def _gaps(evaluation: Evaluation, name: str) -> dict[str, Figures]:
    """Dominant and second source of one map, and of maps that did not listen."""
    rows = {name: Row(MODEL, answer=name), FEATURE_NORM: Row(MODEL, answer=FEATURE_NORM)}
    rows |= {row.answer: row for row in evaluation.scores if row.method == ONE_MAP}
    return {
        f"{label}, {which} source": intervals(pairs)
        for label, row in rows.items()
        if row in evaluation.scores
        for which, pairs in zip(("dominant", "second"), by_dominance(evaluation.scores[row].pairs), strict=True)
    }


def _gap_title(name: str) -> str:
    return f"Selective convergence of {name}"


def loss_curves(metrics: Path) -> Figure:
    """The loss of each stage over its steps."""
    figure = new_figure(9, 3)
    stages = read_losses(metrics)
    for place, (stage, losses) in enumerate(stages.items(), 1):
        axes = figure.add_subplot(1, len(stages), place, title=f"stage {stage}", xlabel="step", ylabel="loss")
        axes.plot(*zip(*losses, strict=True), linewidth=1)
    return figure


def read_losses(metrics: Path) -> dict[str, list[tuple[int, float]]]:
    """The steps and losses that a run has noted, by stage."""
    stages: dict[str, list[tuple[int, float]]] = {}
    for line in map(json.loads, metrics.read_text(encoding="utf-8").splitlines()):
        stages.setdefault(line["stage"], []).append((line["step"], line["loss"]))
    return stages
