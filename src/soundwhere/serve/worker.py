"""What the process that localises does with a job.

It is a process of its own so that the page stays quick, a clip that brings a decoder down costs one job, and a job can
be cancelled at any moment.
"""

from __future__ import annotations

import json
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from soundwhere.errors import SoundwhereError
from soundwhere.files import write_text
from soundwhere.inference.browser_video import browser_video
from soundwhere.inference.folder import finished_folder
from soundwhere.inference.formats import FILES
from soundwhere.inference.page import put_page
from soundwhere.inference.player import player_data
from soundwhere.serve.jobs import PLAYER, RESULT, Job

if TYPE_CHECKING:
    from collections.abc import Callable

    from soundwhere.inference.localiser import Localiser
    from soundwhere.inference.pool import Tell

_PROGRESS_S = 0.1  # between news of progress


def make_worker(options: dict[str, Any], tell: Tell) -> Callable[[tuple[Job, Path]], dict[str, Any]]:
    """Load the model and say so; then jobs can be done.

    Args:
        options: Those of `Localiser`.
        tell: Takes the news.

    Returns:
        A function that does a job, given with its folder, and returns what is to be noted about it.
    """
    from soundwhere.inference.localiser import Localiser

    localiser = Localiser(**options)
    tell({"model": localiser.model.config.name})
    return partial(attempt, localiser, tell)


def attempt(localiser: Localiser, tell: Tell, order: tuple[Job, Path]) -> dict[str, Any]:
    """Do a job; what goes wrong is noted about it."""
    job, folder = order
    try:
        localise_job(localiser, Path(job.clip), folder, job.name, tell)
        return {"state": "done", "stage": ""}
    except SoundwhereError as error:
        message, remedy = (text.replace(job.clip, job.name) for text in (error.message, error.remedy))
    except Exception as error:
        message = f"internal error: {type(error).__name__}: {error}"
        remedy = "This is a defect: please report it with this clip."
    return {"state": "failed", "stage": "", "error": message, "remedy": remedy}


def localise_job(localiser: Localiser, clip: Path, folder: Path, name: str, tell: Tell) -> None:
    """Localise a clip and write every format to `result/` in a job's folder, then `player.json` for the page.

    Args:
        localiser: The model.
        clip: The clip.
        folder: The job's folder.
        name: What people call the clip.
        tell: Takes the news.
    """
    from soundwhere.inference.footage import Footage
    from soundwhere.inference.writers import write_formats

    footage = Footage.open(clip, name=name)
    result = localiser.localise_footage(footage, _Progress(tell, "localising"))
    data, plain = player_data(result), browser_video(footage, folder)
    with finished_folder(folder / RESULT, overwrite=True) as temporary:
        others = tuple(form for form in FILES if form != "html")
        write_formats(result, temporary, others, _Progress(tell, "writing"))
        put_page(data, plain, temporary)
    shown = {**data, "plain": str(plain.path), "plain_start_s": plain.start_s}
    write_text(folder / PLAYER, json.dumps(shown, allow_nan=False))  # in ASCII: a path may hold what is not text


class _Progress:
    """Tells how far a stage has come, not too often."""

    def __init__(self, tell: Tell, stage: str) -> None:
        self._tell, self._stage, self._last_s = tell, stage, 0.0

    def __call__(self, done: int, total: int) -> None:
        if done == total or time.monotonic() - self._last_s >= _PROGRESS_S:
            self._last_s = time.monotonic()
            self._tell({"stage": self._stage, "done": done, "total": total})
