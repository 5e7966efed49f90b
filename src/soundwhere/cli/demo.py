"""`soundwhere demo`: a made-up clip, its two sounds localised, and how far that is from the truth."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from soundwhere.terminal.options import named, parse

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from soundwhere.data.synthetic.movie import MovieTruth
    from soundwhere.inference.result import Result

MODEL = "scav-mobile"  # of the built-in ones that look at real videos, the one that knows the made-up world too
SECONDS = 8.0
SIZE = (384, 384)


DESCRIPTION = """\
Render a made-up clip with two sounding things and a silent one, localise it, and compare with the truth.

Examples:
  soundwhere demo --seed 3 --out demo-3
"""


@dataclass(frozen=True)
class Options:
    """Render a made-up clip with two sounding things and a silent one, localise it, and compare with the truth."""

    out: Path = Path("demo")
    """Folder to write to; an earlier demo in it is replaced."""
    model: Annotated[str | None, named("MODEL")] = None
    """Name of a model, or a file written by `soundwhere train`; by default one that knows the made-up world."""
    seed: int = 7
    """Decides what the clip shows."""


def run(arguments: list[str]) -> int:
    """Render, localise, write and compare."""
    options = parse(Options, arguments, "demo", description=DESCRIPTION)
    from soundwhere.data.synthetic.movie import write_movie
    from soundwhere.data.synthetic.world import World
    from soundwhere.inference.folder import check_target, finished_folder, written_files
    from soundwhere.inference.footage import Footage
    from soundwhere.inference.formats import DEFAULT_FORMATS
    from soundwhere.inference.localiser import Localiser
    from soundwhere.inference.writers import localise_into, write_formats
    from soundwhere.terminal.messages import print_written, show_path
    from soundwhere.terminal.progress import Bar
    from soundwhere.terminal.results import print_sources

    check_target(options.out, overwrite=True)
    localiser = Localiser(options.model or MODEL)
    with finished_folder(options.out, overwrite=True) as folder:
        truth = write_movie(folder / "clip.mp4", World(options.seed, SIZE), 0, SECONDS, sounding=2, silent=1)
        seen = ", ".join(thing.kind + ("" if thing.sounding_s else " (silent)") for thing in truth.things)
        footage = Footage.open(folder / "clip.mp4")
        print(f"made-up clip: {seen}; {footage.describe()}", flush=True)
        formats = (*DEFAULT_FORMATS, "png")
        with Bar("localising", footage.count(localiser.analysis_fps(footage))) as bar:
            result = localise_into(localiser, footage, folder, formats, bar.update)
        write_formats(result, folder, formats)
        print_sources(result)
        print_comparison(result, truth)
        files = written_files(folder)
    print_written(options.out, [options.out / path for path in files])
    print(f"open {show_path(options.out / 'index.html')} in a browser to see and hear it")
    return 0


@dataclass(frozen=True)
class Match:
    """How well a source follows the thing it was matched with, while the thing sounds.

    Attributes:
        thing: Number of the thing.
        source: Number of the source.
        hits: Share of the time in which the peak lies in the thing's box.
        distance: Mean distance of the peak from the box's centre, in pixels.
        random_hits: What a place drawn anywhere in the picture reaches.
        centre_hits: What the middle of the picture reaches.
    """

    thing: int
    source: int
    hits: float
    distance: float
    random_hits: float
    centre_hits: float


def compare(result: Result, truth: MovieTruth) -> list[Match]:
    """Match sources with sounding things, one to one, so that the peaks are nearest over time, and score each pair."""
    import numpy as np
    from scipy.optimize import linear_sum_assignment

    things = [number for number, thing in enumerate(truth.things) if thing.sounding_s]
    sounding = {thing: _sounding(result.times, truth.things[thing].sounding_s) for thing in things}
    frames = np.minimum((result.times * truth.fps + 1e-6).astype(int), len(truth.things[0].boxes) - 1)
    boxes = {thing: np.array(truth.things[thing].boxes, float)[frames] for thing in things}
    things = [thing for thing in things if sounding[thing].any()]

    def distance(thing: int, source: int) -> float:
        centres = (boxes[thing][:, :2] + boxes[thing][:, 2:]) / 2
        return float(np.linalg.norm(result.peaks[:, source] - centres, axis=1)[sounding[thing]].mean())

    cost = np.array([[distance(thing, source) for source in range(result.sources)] for thing in things])
    matches = []
    for row, source in zip(*linear_sum_assignment(cost), strict=True):
        box, when = boxes[things[row]], sounding[things[row]]
        middle = np.broadcast_to(np.array(result.size[::-1]) / 2, (len(frames), 2))
        area = (box[:, 2] - box[:, 0]) * (box[:, 3] - box[:, 1]) / (result.size[0] * result.size[1])
        matches.append(
            Match(
                thing=things[row],
                source=int(source),
                hits=float(_inside(result.peaks[:, source], box)[when].mean()),
                distance=float(cost[row, source]),
                random_hits=float(area[when].mean()),
                centre_hits=float(_inside(middle, box)[when].mean()),
            )
        )
    return matches


def print_comparison(result: Result, truth: MovieTruth) -> None:
    """Say how often each source's peak was on the thing that sounded."""
    print("peak on the thing that sounds  (a random place / the middle of the picture)")
    for match in compare(result, truth):
        print(
            f"  source {match.source + 1}  {truth.things[match.thing].kind:<10} {match.hits:4.0%} of the time  "
            f"({match.random_hits:.0%} / {match.centre_hits:.0%})   {match.distance:.0f} px from its centre on average"
        )


def _sounding(times: NDArray[np.float64], spans: tuple[tuple[float, float], ...]) -> NDArray[np.bool_]:
    import numpy as np

    return np.array([any(start <= time < end for start, end in spans) for time in times])


def _inside(points: NDArray[np.floating], boxes: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Whether each point (T, 2) lies in its box (T, 4)."""
    inside: NDArray[np.bool_] = ((points >= boxes[:, :2]) & (points < boxes[:, 2:])).min(1)
    return inside
