"""Clips that were asked for, in the order they came, each with a folder of its own.

A job's folder is named by a random number and holds `job.json`, the upload if there is one, and what was found. What
`job.json` says survives the server. It is written when a job comes in and when it is over: one that was being worked on
when the server stopped waits again when it starts.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
import shutil
import time
from dataclasses import asdict, dataclass, field, fields, replace
from threading import Condition
from typing import TYPE_CHECKING, Any, Final

from soundwhere.errors import DataError, OutputError, SoundwhereError
from soundwhere.files import make_folder, output_error, write_text
from soundwhere.inference.folder import videos_below

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

RESULT: Final = "result"  # in a job's folder: every format
PLAYER: Final = "player.json"  # in a job's folder: what the player shows
ACTIVE: Final = frozenset({"waiting", "working"})
_ID: Final = re.compile(r"[0-9a-f]{16}")
_LONGEST_NAME: Final = 200


class MissingError(SoundwhereError):
    """Something that is not, or no longer, there."""

    status = 404  # of the answer over HTTP


@dataclass(frozen=True)
class Job:
    """A clip to localise.

    Attributes:
        id: Sixteen hexadecimal digits, the name of its folder.
        name: What people call the clip. It never becomes a path.
        clip: Where the clip is.
        created_s: When it was asked for, in seconds since 1970.
        state: `waiting`, `working`, `done`, `failed` or `cancelled`.
        stage: What is being done: `localising` or `writing`.
        done: How much of that is done ...
        total: ... of how much.
        error: What went wrong.
        remedy: What to do about it.
        audio: Where its sound is, if that is another file.
        batch: What clips that were chosen together have in common.
        options: What was chosen for it: any of `model`, `fps` and `sources` of `Localiser`.
    """

    id: str
    name: str
    clip: str
    created_s: float
    state: str = "waiting"
    stage: str = ""
    done: int = 0
    total: int = 0
    error: str = ""
    remedy: str = ""
    audio: str = ""
    batch: str = ""
    options: dict[str, Any] = field(default_factory=dict)


class Jobs:
    """The jobs below a folder. Every method may be called from any thread.

    Args:
        root: The folder; it is made if it is not there.
    """

    def __init__(self, root: Path) -> None:
        self._root = _make(root)
        self._changed = Condition()
        self._jobs: dict[str, Job] = {}
        _sweep(root)  # uploads that were cut short
        for folder in root.iterdir():
            if (job := _read(folder)) is not None:
                _sweep(folder)
                self._jobs[job.id] = replace(job, state="waiting", stage="") if job.state == "working" else job

    def folder(self, job: Job) -> Path:
        """Where everything about a job is."""
        return self._root / job.id

    def all(self) -> list[Job]:
        """All jobs, the oldest first."""
        with self._changed:
            return sorted(self._jobs.values(), key=lambda job: (job.created_s, job.id))

    def get(self, number: str) -> Job:
        """A job by its number."""
        with self._changed:
            if number not in self._jobs:
                raise MissingError("This clip is no longer here.", "Go back to all clips.")
            return self._jobs[number]

    def begin_upload(self) -> Path:
        """A folder for an upload that is on its way; it becomes a job with `add`, or vanishes with the next start."""
        return _make(self._root / f".{secrets.token_hex(8)}")

    def keep_part(self, folder: Path) -> str:
        """Keep an upload that is half of a clip, such as the sound of a photo; the number `take_part` knows it by."""
        return folder.name.removeprefix(".")

    def take_part(self, number: str, folder: Path) -> Path:
        """Move what was kept into the folder of another upload; where it is then."""
        kept = self._root / f".{number}"
        parts = list(kept.iterdir()) if _ID.fullmatch(number) and kept.is_dir() else []
        if len(parts) != 1:
            raise MissingError("The sound that belongs to this photo is no longer here.", "Choose both files again.")
        moved = parts[0].replace(folder / f"sound{parts[0].suffix}")
        kept.rmdir()
        return moved

    def add(
        self,
        name: str,
        clip: Path,
        folder: Path | None = None,
        audio: Path | None = None,
        batch: str = "",
        options: dict[str, Any] | None = None,
    ) -> Job:
        """Put a clip at the end of the queue.

        Args:
            name: What people call it.
            clip: Where it is.
            folder: What `begin_upload` gave, if the clip is in it; it is gone afterwards in any case.
            audio: The file with its sound, in the same folder.
            batch: What clips that were chosen together have in common.
            options: What was chosen for it.

        Raises:
            OutputError: The job cannot be written down, and was not taken.
        """
        job = Job(secrets.token_hex(8), name, str(clip.absolute()), time.time(), batch=batch, options=options or {})
        try:
            if folder is not None:
                folder.replace(self.folder(job))
                home = self.folder(job).absolute()
                job = replace(job, clip=str(home / clip.name), audio=str(home / audio.name) if audio else "")
            self._write(job)
        except (OSError, OutputError) as error:
            for left in (folder, self.folder(job)):
                if left is not None:
                    shutil.rmtree(left, ignore_errors=True)
            raise work_error(self.folder(job), error) from error
        with self._changed:
            self._jobs[job.id] = job
            self._changed.notify_all()
        return job

    def take(self, patience_s: float) -> Job | None:
        """The next job that waits, which is then being worked on; none if none comes within some seconds."""
        with self._changed:
            self._changed.wait_for(lambda: any(job.state == "waiting" for job in self._jobs.values()), patience_s)
            waiting = [job for job in self._jobs.values() if job.state == "waiting"]
            if not waiting:
                return None
            job = replace(min(waiting, key=lambda job: (job.created_s, job.id)), state="working")
            self._jobs[job.id] = job
            return job

    def update(self, number: str, **changes: Any) -> None:
        """Note how a job goes, unless it was cancelled or removed meanwhile.

        Raises:
            OutputError: That it is over cannot be written down. It is over until the server stops, and begins again
                with the next start.
        """
        with self._changed:
            job = self._jobs.get(number)
            if job is None or job.state not in ACTIVE:
                return
            self._jobs[number] = job = replace(job, **changes)
            if job.state not in ACTIVE:  # all else is not worth a file
                self._write(job)

    def cancel(self, number: str) -> Job:
        """Cancel a job that waits or is being worked on; others stay as they are."""
        job = self.get(number)
        self.update(number, state="cancelled", stage="")
        return self.get(job.id)

    def retry(self, number: str) -> Job:
        """Put a job that is over at the end of the queue again; one that is not stays as it is."""
        job = self.get(number)
        with self._changed:
            if job.state not in ACTIVE:
                job = Job(
                    job.id, job.name, job.clip, time.time(), audio=job.audio, batch=job.batch, options=job.options
                )
                self._write(job)
                self._jobs[number] = job
                self._changed.notify_all()
        return job

    def shown(self) -> list[Job]:
        """All jobs, the latest first; those that were chosen together in the order they were chosen in."""
        ordered = self.all()
        latest = {job.batch or job.id: job.created_s for job in ordered}
        return sorted(ordered, key=lambda job: -latest[job.batch or job.id])

    def remove(self, number: str) -> None:
        """Forget a job and all that was found; a clip that was not uploaded stays where it is."""
        job = self.get(number)
        gone = self.folder(job).with_name(f".{job.id}")
        try:
            self.folder(job).replace(gone)  # at once, however long the rest takes
        except FileNotFoundError:  # somebody was faster
            pass
        except OSError as error:
            raise work_error(self.folder(job), error) from error
        with self._changed:
            self._jobs.pop(number, None)
        shutil.rmtree(gone, ignore_errors=True)

    def place(self, job: Job) -> int:
        """How many jobs come before one that waits."""
        before = (other for other in self.all() if other.state in ACTIVE and other.id != job.id)
        return sum((other.created_s, other.id) < (job.created_s, job.id) for other in before)

    def _write(self, job: Job) -> None:
        text = json.dumps(asdict(job), indent=2)  # in ASCII, because a path may hold what is not text
        try:
            write_text(self.folder(job) / "job.json", text + "\n")
        except OutputError as error:
            raise work_error(self.folder(job), error) from error


def work_error(path: Path, error: OSError | OutputError) -> OutputError:
    """Why something in the work folder cannot be written, and which option chooses another one."""
    told = error if isinstance(error, OutputError) else output_error(path, error)
    return OutputError(told.message, told.remedy.replace("--out", "--work"))


def _make(folder: Path) -> Path:
    try:
        return make_folder(folder)
    except OutputError as error:
        raise work_error(folder, error) from error


def _read(folder: Path) -> Job | None:
    """The job in a folder, or none if there is no such thing in it."""
    if not _ID.fullmatch(folder.name):
        return None
    try:
        stored = json.loads((folder / "job.json").read_bytes())  # our own words: a path may hold what is not text
        known = {each.name for each in fields(Job)}
        job = Job(**{name: value for name, value in stored.items() if name in known})
    except (OSError, ValueError, AttributeError, TypeError, RecursionError):
        return None
    return job if job.id == folder.name else None


def _sweep(folder: Path) -> None:
    """Remove what was being written when the server ended."""
    for left in folder.glob(".*"):
        if left.is_dir():
            shutil.rmtree(left, ignore_errors=True)
        else:
            left.unlink(missing_ok=True)


def plain_name(name: str) -> str:
    r"""A name as people may see it: no folders, nothing that cannot be printed, not too long.

    >>> plain_name("C:\\films/../a\tb.mp4")
    'a b.mp4'
    """
    last = re.split(r"[/\\]", name)[-1]
    shown = "".join(character if character.isprintable() else " " for character in last).strip()
    return shown[:_LONGEST_NAME] or "clip"


@dataclass(frozen=True)
class Shelf:
    """The videos below a folder that may be picked. They are named by numbers that tell nothing about where they are.

    Attributes:
        root: The folder.
    """

    root: Path

    def clips(self) -> Iterator[tuple[str, Path]]:
        """Number and path of each video, by name; hidden ones and results are left out."""
        for path in videos_below(self.root):
            inside = path.relative_to(self.root).as_posix()
            yield hashlib.sha256(inside.encode(errors="surrogateescape")).hexdigest()[:16], path

    def find(self, number: str) -> Path:
        """The video with a number."""
        for known, path in self.clips():
            if known == number:
                return path
        raise DataError("This clip is no longer in the folder.", "Reload the page.")
