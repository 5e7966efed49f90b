"""`soundwhere analyse motion`: which of two videos is heard, with and without what moves."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from soundwhere.terminal.options import check_limit, named

if TYPE_CHECKING:
    from soundwhere.analysis.report import Report


@dataclass(frozen=True)
class Options:
    """Two real videos side by side, one of which is heard: does motion tell which, and does that help a model?"""

    data: Annotated[Path, tyro.conf.arg(metavar="DIR")]
    """Folder of wide-duet."""
    model: Annotated[str | None, named("MODEL")] = None
    """Name of a model, or its file; by default the built-in model."""
    split: Literal["train", "val"] = "val"
    """train to choose by, val to report."""
    label: Annotated[str, tyro.conf.arg(metavar="WORD", help_behavior_hint="")] = ""
    """Only videos with this in their label, such as speech."""
    limit: Annotated[int | None, named("N")] = None
    """N duets of each list only, evenly chosen."""
    out: Annotated[Path | None, named("DIR")] = None
    """Folder for JSON and Markdown; without it, tables are only printed."""


def run(options: Options) -> tuple[Report, dict[str, Any]]:
    """Run the analysis."""
    check_limit(options.limit, "duets")
    from soundwhere.analysis.motion import motion_results, watch
    from soundwhere.data.real_duet import RealDuet
    from soundwhere.data.video_duets import VideoDuets
    from soundwhere.inference.localiser import Localiser
    from soundwhere.terminal.progress import Bar

    videos = RealDuet(options.data).videos(options.split, options.label)
    lists = {
        "two videos": VideoDuets(videos),
        "one video and its twin at another time": VideoDuets(videos, alike=True),
    }
    localiser = Localiser() if options.model is None else Localiser(options.model)
    found, made_of = {}, {}
    for name, duets in lists.items():
        step = 1 if options.limit is None else max(1, len(duets) // options.limit)
        chosen = duets[::step][: options.limit]
        with Bar(name, len(chosen), "duets") as bar:
            found[name] = watch(chosen, localiser.look, bar.update)
        made_of[name] = [chosen.made_of(number) for number in range(len(chosen))]
    settings = {"split": options.split, "label": options.label or "all", "videos": len(videos)}
    return motion_results(found, made_of), {**settings, "model": localiser.model.config.name}
