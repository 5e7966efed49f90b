"""The paper's figures about SCAV itself: its failures, Algorithm 1, both protocols, and how training went."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch

from soundwhere.evaluation.network_answerer import NetworkAnswerer
from soundwhere.evaluation.page import new_figure
from soundwhere.evaluation.qualitative import with_truth
from soundwhere.evaluation.rows import Row
from soundwhere.evaluation.training_report import loss_curves, read_losses
from soundwhere.media.draw import SOURCE_COLOURS, outline
from soundwhere.media.image import normalise, resize
from soundwhere.metrics.binarise import binarise
from soundwhere.metrics.presets import find_preset, score, upsample
from soundwhere.reproduction.failures import failure_pictures, failures_table, find_failures
from soundwhere.training.journal import METRICS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from soundwhere.evaluation.task import Task
    from soundwhere.methods.scav.model import SCAV
    from soundwhere.metrics.frames import Grid
    from soundwhere.metrics.report import Table
    from soundwhere.reproduction.reference import Reference
    from soundwhere.types import Image, Scene

_SHOWN: Final = 3  # scenes of Algorithm 1
_ACROSS: Final = 6  # curves
_STEPS: Final = ("similarity S", "background weights", "distance to the peak", "to the background", "prior M_dom")


def draw_figures(
    network: SCAV, task: Task, reference: Reference, tick: Callable[[int, int], None] | None = None
) -> tuple[Table, dict[str, Image | Figure]]:
    """The table of failure modes, and every figure by its heading.

    Args:
        network: In eval mode.
        task: What is shown.
        reference: Where it comes from; curves are drawn of what was trained there and beside it.
        tick: Called with the number of scenes done and that of all.
    """
    grid = task.benchmark.grid
    method = NetworkAnswerer("scav", network, grid, rows=[Row("scav")])
    failures = find_failures(method, task.scenes, grid, tick)
    first = [task.scenes[place] for place in range(min(_SHOWN, len(task.scenes)))]
    pictures: dict[str, Image | Figure] = {
        "Algorithm 1, step by step": algorithm_one(network, first, grid),
        "What both protocols compare": both_protocols(first[0], method.own(first[:1])[0], grid),
        **failure_pictures(failures, task.scenes, method),
    }
    own = reference.folder / METRICS
    if own.is_file():
        pictures["How training went: the loss of SCAV"] = loss_curves(own)
    others = [path for path in sorted(reference.rows.glob(f"*/{METRICS}")) if path != own]
    if others:
        pictures["The losses of the others, over all their stages"] = small_curves(others)
    return failures_table(failures, task.benchmark.name), pictures


def small_curves(runs: Sequence[Path]) -> Figure:
    """The losses of several runs, from their metrics; each has its own scale, as losses of methods do not compare."""
    down = math.ceil(len(runs) / _ACROSS)
    figure = new_figure(13, 1.5 * down + 0.3)
    for place, path in enumerate(runs, 1):
        losses = [loss for stage in read_losses(path).values() for _, loss in stage]
        axes = figure.add_subplot(down, _ACROSS, place)
        axes.plot(losses, linewidth=1)
        axes.set_title(path.parent.name, fontsize=8)
        axes.tick_params(labelsize=6, labelbottom=False)
    return figure


def algorithm_one(network: SCAV, scenes: Sequence[Scene], grid: Grid) -> Figure:
    """Algorithm 1 on some scenes, a row each: picture, similarity with its peak, background, distances, prior.

    Args:
        network: In eval mode, on the CPU.
        scenes: What is shown, pictures of one size.
        grid: Rows and columns of frames in the pictures.
    """
    side = network.config.frame_px
    images = normalise(np.stack([resize(scene.image, (grid[0] * side, grid[1] * side)) for scene in scenes]))
    sounds = torch.from_numpy(np.stack([scene.mixture for scene in scenes]))
    with torch.inference_mode():
        seen, heard = network.see(images), network.hear(sounds)
        similarity = network.stage_one_map(seen, heard)
        steps = network.dominant_steps(similarity, seen)
    columns = similarity.shape[-1]
    figure = new_figure(3 * (1 + len(_STEPS)), 1.2 + 1.7 * len(scenes))
    places = figure.subplots(len(scenes), 1 + len(_STEPS), squeeze=False)
    for number, (scene, row) in enumerate(zip(scenes, places, strict=True)):
        _picture(row[0], with_truth(scene), "picture, what sounds outlined" if not number else "")
        maps = (similarity, steps.weights, steps.to_peak, steps.to_background, steps.prior)
        for axes, title, values in zip(row[1:], _STEPS, maps, strict=True):
            axes.imshow(values[number].numpy(), cmap="viridis")
            axes.set_axis_off()
            if not number:
                axes.set_title(title, fontsize=9)
        top, left = divmod(int(steps.peak[number]), columns)
        row[1].plot(left, top, "o", markersize=9, markerfacecolor="none", markeredgecolor="#d1495b")
    return figure


def both_protocols(scene: Scene, maps: torch.Tensor, grid: Grid) -> Figure:
    """What is compared of the map of the first source: all of it (frame-wise), or its own frame only (source-wise).

    Args:
        scene: With masks.
        maps: The answer, shape (K, h, w).
        grid: Rows and columns of frames in the picture.
    """
    preset = find_preset("scav")
    size = scene.image.shape[:2]
    pairs = score(maps[None], torch.from_numpy(scene.masks)[None], preset, grid)
    source, chosen = int(pairs.source[0]), max(0, int(pairs.prediction[0]))
    large = upsample(maps[None, chosen : chosen + 1], (size[0], size[1]), preset)
    lit = binarise(large, preset.rule)[0, 0].numpy()
    mask = scene.masks[source]
    top, left, bottom, right = _frame_of(mask, grid)
    inside = np.zeros_like(mask)
    inside[top:bottom, left:right] = True
    colour = list(SOURCE_COLOURS.values())[source]
    figure = new_figure(13, 2.9)
    heated, frame_wise, source_wise = figure.subplots(1, 3)
    _picture(heated, outline(scene.image, mask, colour), "the source outlined, and its map")
    heated.imshow(large[0, 0].numpy(), cmap="magma", alpha=0.5)
    for axes, where, name in ((frame_wise, np.ones_like(mask), "frame-wise"), (source_wise, inside, "source-wise")):
        shown = np.where((lit & where)[..., None], 0.35 * scene.image + 0.65 * np.array([255, 200, 40]), scene.image)
        shown = np.where(where[..., None], shown, 245)
        _picture(axes, outline(shown.astype(np.uint8), mask, colour), f"{name}: IoU {_iou(lit & where, mask):.2f}")
    return figure


def _frame_of(mask: np.ndarray[Any, Any], grid: Grid) -> tuple[int, int, int, int]:
    """Top, left, bottom and right of the frame that most of an object is in."""
    height, width = mask.shape[0] // grid[0], mask.shape[1] // grid[1]
    parts = mask[: grid[0] * height, : grid[1] * width].reshape(grid[0], height, grid[1], width).sum((1, 3))
    row, column = np.unravel_index(int(parts.argmax()), parts.shape)
    return int(row) * height, int(column) * width, int(row + 1) * height, int(column + 1) * width


def _iou(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> float:
    union = (one | other).sum()
    return float((one & other).sum() / union) if union else 0.0


def _picture(axes: Axes, picture: np.ndarray[Any, Any], title: str) -> None:
    axes.imshow(picture)
    axes.set_axis_off()
    axes.set_title(title, fontsize=9)
