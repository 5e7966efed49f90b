"""What the process that localises does with a job.

It is a process of its own so that the page stays quick, a clip that brings a decoder down costs one job, and a job can
be cancelled at any moment.
"""

from __future__ import annotations

import json
import time
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from soundwhere.errors import MediaError, SoundwhereError
from soundwhere.files import write_text
from soundwhere.inference.browser_video import browser_video
from soundwhere.inference.folder import finished_folder
from soundwhere.inference.formats import FILES
from soundwhere.inference.page import put_page
from soundwhere.inference.player import player_data
from soundwhere.serve.jobs import PLAYER, RESULT

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from soundwhere.inference.footage import Footage
    from soundwhere.inference.localiser import Localiser
    from soundwhere.inference.pool import Tell
    from soundwhere.serve.jobs import Job

_KEPT = 2  # models that stay loaded
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

    @lru_cache(_KEPT)
    def load(chosen: str) -> Localiser:
        asked = json.loads(chosen)
        given = {name: value for name, value in options.items() if name != "runtime" or "model" not in asked}
        return Localiser(**{**given, **asked})

    tell({"model": load("{}").model.config.name})
    return partial(attempt, lambda job: load(json.dumps(job.options, sort_keys=True)), tell)


def attempt(load: Callable[[Job], Localiser], tell: Tell, order: tuple[Job, Path]) -> dict[str, Any]:
    """Do a job; what goes wrong is noted about it."""
    job, folder = order
    try:
        localise_job(load(job), job, folder, tell)
        return {"state": "done", "stage": ""}
    except SoundwhereError as error:
        message, remedy = (_without_paths(text, job) for text in (error.message, error.remedy))
    except Exception as error:
        message = f"internal error: {type(error).__name__}: {error}"
        remedy = "This is a defect: please report it with this clip."
    return {"state": "failed", "stage": "", "error": message, "remedy": remedy}


def _without_paths(text: str, job: Job) -> str:
    """Words about a job's files, as somebody knows them who saw only what they chose."""
    text = text.replace(job.clip, job.name)
    return text.replace(job.audio, f"The sound beside {job.name}") if job.audio else text


def localise_job(localiser: Localiser, job: Job, folder: Path, tell: Tell) -> None:
    """Localise a clip and write every format to `result/` in a job's folder, then `player.json` for the page.

    Args:
        localiser: The model.
        job: What is asked for.
        folder: The job's folder.
        tell: Takes the news.
    """
    from soundwhere.inference.writers import localise_into, write_formats

    footage = open_clip(job)
    others = tuple(form for form in FILES if form != "html")
    with finished_folder(folder / RESULT, overwrite=True) as temporary:
        result = localise_into(localiser, footage, temporary, others, _Progress(tell, "localising"))
        data, plain = player_data(result), browser_video(footage, folder)
        write_formats(result, temporary, others, _Progress(tell, "writing"))
        put_page(data, plain, temporary)
    shown = {**data, "plain": str(plain.path), "plain_start_s": plain.start_s}
    write_text(folder / PLAYER, json.dumps(shown, allow_nan=False))  # in ASCII: a path may hold what is not text


def open_clip(job: Job) -> Footage:
    """The clip of a job; what is missing is said as somebody in front of the page can mend it."""
    from soundwhere.inference.footage import Footage
    from soundwhere.media.video import probe

    if job.audio:
        if not probe(job.audio).has_audio:
            raise MediaError(f"{job.audio} cannot be heard.", "Choose a photo and a recording together.")
        return Footage.open(job.clip, job.audio, name=job.name)
    info = probe(job.clip)
    if not info.has_video and not info.has_audio:
        raise MediaError(
            f"{job.name} holds neither pictures nor sound that can be read.",
            "Choose a video that plays, such as an mp4, mov, mkv or webm, or a photo (jpg, png) and a sound together.",
        )
    if info.has_video and not info.has_audio:
        raise MediaError(
            f"{job.name} has a picture but no sound track.",
            "Localisation needs both: choose a photo and a recording together, or a video with sound.",
        )
    if info.has_audio and not info.has_video:
        raise MediaError(f"{job.name} is a sound without a picture.", "Choose it together with a photo.")
    return Footage.open(job.clip, name=job.name)


class _Progress:
    """Tells how far a stage has come, not too often."""

    def __init__(self, tell: Tell, stage: str) -> None:
        self._tell, self._stage, self._last_s = tell, stage, 0.0

    def __call__(self, done: int, total: int) -> None:
        if done == total or time.monotonic() - self._last_s >= _PROGRESS_S:
            self._last_s = time.monotonic()
            self._tell({"stage": self._stage, "done": done, "total": total})
