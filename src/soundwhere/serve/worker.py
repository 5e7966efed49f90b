"""The process that localises: orders come in as lines of JSON, news goes out as lines of JSON.

It is a process of its own so that the page stays quick, a clip that brings a decoder down costs one job, and a job can
be cancelled at any moment. `python -m soundwhere.serve.worker OPTIONS`, OPTIONS being JSON for `Localiser`.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from soundwhere.errors import SoundwhereError
from soundwhere.files import write_json
from soundwhere.inference.browser_video import browser_video
from soundwhere.inference.folder import finished_folder
from soundwhere.inference.formats import FILES
from soundwhere.inference.page import put_page
from soundwhere.inference.player import player_data
from soundwhere.serve.jobs import PLAYER, RESULT

if TYPE_CHECKING:
    from collections.abc import Callable

    from soundwhere.inference.localiser import Localiser

    Tell = Callable[[dict[str, Any]], None]

_PROGRESS_S = 0.1  # between news of progress


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
    write_json(folder / PLAYER, {**data, "plain": str(plain.path), "plain_start_s": plain.start_s})


class _Progress:
    """Tells how far a stage has come, not too often."""

    def __init__(self, tell: Tell, stage: str) -> None:
        self._tell, self._stage, self._last_s = tell, stage, 0.0

    def __call__(self, done: int, total: int) -> None:
        if done == total or time.monotonic() - self._last_s >= _PROGRESS_S:
            self._last_s = time.monotonic()
            self._tell({"stage": self._stage, "done": done, "total": total})


def main(options: dict[str, Any]) -> None:
    """Load the model, then do one order after the other until there are no more."""
    news = os.fdopen(os.dup(sys.stdout.fileno()), "w", buffering=1, encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # whoever prints does not spoil the lines
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # partial files are removed

    def tell(what: dict[str, Any]) -> None:
        print(json.dumps(what), file=news, flush=True)

    try:
        from soundwhere.inference.localiser import Localiser

        localiser = Localiser(**options)
    except SoundwhereError as error:
        tell({"useless": True, "error": error.message, "remedy": error.remedy})
        return
    tell({"ready": True, "model": localiser.model.config.name})
    for line in sys.stdin:
        order = json.loads(line)
        clip, name = Path(order["clip"]), str(order["name"])
        try:
            localise_job(localiser, clip, Path(order["folder"]), name, tell)
            tell({"finished": True})
        except SoundwhereError as error:
            message, remedy = (text.replace(str(clip), name) for text in (error.message, error.remedy))
            tell({"failed": True, "error": message, "remedy": remedy})
        except Exception as error:
            what = f"internal error: {type(error).__name__}: {error}"
            tell({"failed": True, "error": what, "remedy": "This is a defect: please report it with this clip."})


if __name__ == "__main__":
    try:
        main(json.loads(sys.argv[1]))
    except (KeyboardInterrupt, BrokenPipeError):
        sys.exit(130)
