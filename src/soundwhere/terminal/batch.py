"""One clip after the other into its folder, and what became of it."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from soundwhere.errors import SoundwhereError
from soundwhere.inference.formats import FILES
from soundwhere.terminal.messages import print_written, show_path

if TYPE_CHECKING:
    from collections.abc import Callable

    from soundwhere.inference.footage import Footage
    from soundwhere.inference.localiser import Localiser


@dataclass(frozen=True)
class Task:
    """A clip, the folder its result goes to, and how.

    Attributes:
        clip: The file with the picture.
        folder: Where the result goes.
        audio: Another file to take the sound from.
        start_s: Where to begin.
        end_s: Where to end; by default with the clip.
        formats: What to write.
        overwrite: Replace an earlier result.
    """

    clip: Path
    folder: Path
    audio: Path | None
    start_s: float
    end_s: float | None
    formats: tuple[str, ...]
    overwrite: bool


@dataclass(frozen=True)
class Outcome:
    """What became of a clip.

    Attributes:
        clip: The clip, as it was named.
        state: What became of it.
        words: Where its result is, or why there is none.
        remedy: What to do about a failure.
        sources: For each source where it mostly is; empty if it was not heard.
        took_s: How long it took, in seconds.
    """

    clip: str
    state: Literal["localised", "skipped", "failed"]
    words: str
    remedy: str = ""
    sources: tuple[str, ...] = ()
    took_s: float = 0.0


def failed(clip: Path | str, error: Exception) -> Outcome:
    """The outcome of a clip that failed; anything but a `SoundwhereError` is a defect of this package."""
    if isinstance(error, SoundwhereError):
        return Outcome(str(clip), "failed", error.message, error.remedy)
    what = f"{clip}: internal error: {type(error).__name__}: {error}"
    return Outcome(str(clip), "failed", what, "This is a defect: please report it, with --debug and this clip alone.")


@dataclass
class ClipRunner:
    """Localises clips with one model, which is loaded when the first clip has turned out to be readable.

    Attributes:
        load: Makes the localiser.
        talk: Say how it goes and what was found, with a bar for each clip.
        early: Load it when there is a first clip, readable or not: nobody waits for a model that is opened aside.
    """

    load: Callable[[], Localiser]
    talk: bool = True
    early: bool = False
    _localiser: Localiser | None = field(default=None, init=False)

    def do(self, task: Task) -> Outcome:
        """Localise a clip and write its result.

        Raises:
            SoundwhereError: The clip cannot be read, the model cannot be loaded, or the result cannot be written.
        """
        began = time.monotonic()
        footage = self._look(task)
        return self._localise(task, footage, self._loaded(), began)

    def attempt(self, task: Task) -> Outcome:
        """As `do`, but what goes wrong with the clip becomes its outcome; without a model there is none."""
        began = time.monotonic()
        try:
            footage = self._look(task)
        except Exception as error:
            return failed(task.clip, error)
        localiser = self._loaded()
        try:
            return self._localise(task, footage, localiser, began)
        except Exception as error:
            return failed(task.clip, error)

    def _look(self, task: Task) -> Footage:
        if self.early:
            from soundwhere.media.container import check_file

            check_file(task.clip)
            self._loaded()
        from soundwhere.inference.footage import Footage

        return Footage.open(task.clip, task.audio, task.start_s, task.end_s)

    def _loaded(self) -> Localiser:
        if self._localiser is None:
            self._localiser = self.load()
        return self._localiser

    def _localise(self, task: Task, footage: Footage, localiser: Localiser, began: float) -> Outcome:
        from soundwhere.inference.folder import finished_folder, written_files
        from soundwhere.inference.writers import localise_into, write_formats
        from soundwhere.terminal.progress import Bar
        from soundwhere.terminal.results import print_sources

        if self.talk:
            print(f"{show_path(task.clip)}  {footage.describe()}", flush=True)
        with finished_folder(task.folder, task.overwrite) as folder:
            with Bar("localising", footage.count(localiser.analysis_fps(footage)), show=self.talk) as bar:
                result = localise_into(localiser, footage, folder, task.formats, bar.update)
            left = "mp4" in task.formats and not (folder / FILES["mp4"]).exists()
            with Bar("writing", footage.count(footage.own_fps) if left else 0, show=self.talk and left) as bar:
                write_formats(result, folder, task.formats, bar.update)
            files = written_files(folder)
        if self.talk:
            print_sources(result)
            print_written(task.folder, [task.folder / file for file in files])
        places = tuple(result.where(source) for source in range(result.sources))
        return Outcome(str(task.clip), "localised", str(task.folder), "", places, time.monotonic() - began)
