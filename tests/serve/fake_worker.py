"""Does what the name of a clip says, at once and without torch; it imports next to nothing, to start quickly."""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING, Any

from soundwhere.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

    from soundwhere.inference.pool import Tell


def make_fake(tell: Tell) -> Callable[[Any], dict[str, Any]]:
    def do(order: Any) -> dict[str, Any]:
        job, folder = order
        tell({"stage": "localising", "done": 1, "total": 4})
        if "crash" in job.name:
            os._exit(9)
        if "slow" in job.name:
            time.sleep(60)
        if "bad" in job.name:
            error = f"{job.name} has no sound track."
            return {"state": "failed", "stage": "", "error": error, "remedy": "Give another."}
        (folder / "result" / "heatmaps").mkdir(parents=True)
        for file in ("result.json", "overlay.png", "index.html", "heatmaps/1.png"):
            (folder / "result" / file).write_text(file)
        player = {"schema": "soundwhere-player-2", "title": job.name, "plain": job.clip, "plain_start_s": 0.0}
        (folder / "player.json").write_text(json.dumps(player))
        return {"state": "done", "stage": ""}

    tell({"model": "fake"})
    return do


def make_useless(_: Tell) -> Callable[[Any], dict[str, Any]]:
    raise ConfigError("There is no model nowhere.", "Choose another.")
