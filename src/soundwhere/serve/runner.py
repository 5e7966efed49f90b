"""Moves jobs through the queue: one worker process, one job at a time."""

from __future__ import annotations

import sys
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any

from soundwhere.errors import ConfigError, OutputError, SoundwhereError
from soundwhere.inference.pool import Died, Told, Worker

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from soundwhere.inference.pool import Tell
    from soundwhere.serve.jobs import Job, Jobs

    Order = tuple[Job, Path]
    """A job and its folder."""

    Answers = Callable[[Order], dict[str, Any]]
    """Does a job; returns what is then to be noted about it."""

_LOOK_S = 0.5  # how often a runner without work looks whether it should end
_PATIENCE_S = 30.0  # for the runner to end after its worker has


class Runner(Thread):
    """Takes jobs, has them done by a worker, and notes what became of them.

    A worker that ends in the middle of a job costs that job only: another one is started.

    Args:
        jobs: Where jobs come from.
        make: Makes what does jobs, in a process of its own. It first tells `model`, the name of the model; during a
            job it tells `stage`, `done` and `total`.
        useless: Called once if a worker says that it cannot do any job, after which the runner ends.
        loaded: Called once, when the first worker has loaded the model.

    Attributes:
        model: The name of the model, once a worker has loaded it.
    """

    def __init__(
        self,
        jobs: Jobs,
        make: Callable[[Tell], Answers],
        useless: Callable[[SoundwhereError], None] = lambda _: None,
        loaded: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(name="runner", daemon=True)
        self._jobs, self._make, self._useless, self._loaded = jobs, make, useless, loaded
        self._lock = Lock()
        self._worker: Worker[Order, dict[str, Any]] | None = None
        self._job: Job | None = None
        self._stopping = False
        self.model = ""

    def run(self) -> None:
        """Work until stopped."""
        while not self._stopping:
            worker = self._ready()
            if worker is None:
                return
            job = self._jobs.take(_LOOK_S)
            if job is not None:
                self._do(job, worker)

    def cancel(self, number: str) -> None:
        """Cancel a job; if it is being worked on, the worker ends."""
        try:
            self._jobs.cancel(number)
        finally:  # it is cancelled even if that cannot be written down
            with self._lock:
                worker = self._worker if self._job is not None and self._job.id == number else None
                if worker is not None:
                    worker.ask_to_end()
            if worker is not None:
                worker.end()

    def stop(self) -> None:
        """End the worker and the runner; the job at hand waits for the next start."""
        self._stopping = True
        with self._lock:
            worker = self._worker
        if worker is not None:
            worker.end()
        if self.is_alive():
            self.join(_PATIENCE_S)

    def _ready(self) -> Worker[Order, dict[str, Any]] | None:
        """A worker that can take a job: the one at hand, or a new one; none if there can be none."""
        if self._worker is not None and self._worker.alive:
            return self._worker
        try:
            worker = Worker(self._make)
            with self._lock:
                self._worker = worker
            if self._stopping:  # it came after `stop` had looked
                worker.end()
                return None
            first = worker.hear()
            if isinstance(first, Told):
                known, self.model = self.model, first.news["model"]
                if not known:
                    self._loaded()
                return worker
            problem: SoundwhereError = ConfigError(
                "The process that localises did not start.", "Its error message is printed above."
            )
        except SoundwhereError as error:
            problem = error
        if not self._stopping:
            self._useless(problem)
        return None

    def _do(self, job: Job, worker: Worker[Order, dict[str, Any]]) -> None:
        with self._lock:
            self._job = job
        # what was cancelled before `cancel` could know who has it is not begun
        heard = self._have_done(job, worker) if self._wanted(job) else Died(None)
        with self._lock:
            self._job = None
        if not self._wanted(job):
            worker.end()  # before the next job, which might otherwise be hit by what was meant for this one
        elif not isinstance(heard, Died):
            self._note(job, **heard)
        elif self._stopping:
            self._note(job, state="waiting", stage="", done=0, total=0)
        else:
            what = f"The process that worked on {job.name} ended with {heard.code}."
            remedy = "There may not be enough memory, or the file is damaged: try a shorter part of it."
            self._note(job, state="failed", stage="", error=what, remedy=remedy)

    def _have_done(self, job: Job, worker: Worker[Order, dict[str, Any]]) -> Died | dict[str, Any]:
        worker.give((job, self._jobs.folder(job)))
        while True:
            heard = worker.hear()
            if not isinstance(heard, Told):
                return heard
            self._jobs.update(job.id, **heard.news)

    def _note(self, job: Job, **changes: Any) -> None:
        """Note what became of a job; that it cannot be written down costs neither the job nor those behind it."""
        try:
            self._jobs.update(job.id, **changes)
        except OutputError as error:
            print(f"soundwhere: {job.name}: {error}", file=sys.stderr, flush=True)

    def _wanted(self, job: Job) -> bool:
        return any(other.id == job.id and other.state == "working" for other in self._jobs.all())
