"""Moves jobs through the queue: one worker process, one job at a time."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any

from soundwhere.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

    from soundwhere.serve.jobs import Job, Jobs

_LOOK_S = 0.5  # how often a runner without work looks whether it should end
_PATIENCE_S = 5.0  # for a worker to remove its partial files


def worker_command(options: dict[str, Any]) -> list[str]:
    """How the worker is started; options are those of `Localiser`."""
    return [sys.executable, "-m", "soundwhere.serve.worker", json.dumps(options)]


class Runner(Thread):
    """Takes jobs, has them done by a worker, and notes what became of them.

    A worker that ends in the middle of a job costs that job only: another one is started.

    Args:
        jobs: Where jobs come from.
        command: Starts a worker.
        useless: Called once if a worker says that it cannot do any job, after which the runner ends.

    Attributes:
        model: The name of the model, once a worker has loaded it.
    """

    def __init__(self, jobs: Jobs, command: list[str], useless: Callable[[ConfigError], None] = lambda _: None) -> None:
        super().__init__(name="runner", daemon=True)
        self._jobs, self._command, self._useless = jobs, command, useless
        self._lock = Lock()
        self._worker: subprocess.Popen[str] | None = None
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
        self._jobs.cancel(number)
        with self._lock:
            worker = self._worker if self._job is not None and self._job.id == number else None
            if worker is not None:
                worker.terminate()
        if worker is not None:
            _end(worker)

    def stop(self) -> None:
        """End the worker and the runner; the job at hand waits for the next start."""
        self._stopping = True
        with self._lock:
            worker = self._worker
        if worker is not None:
            _end(worker)
        if self.is_alive():
            self.join(2 * _PATIENCE_S)

    def _ready(self) -> subprocess.Popen[str] | None:
        """A worker that can take a job: the one at hand, or a new one; none if there can be none."""
        if self._worker is not None and self._worker.poll() is None:
            return self._worker
        worker = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8", start_new_session=True
        )
        with self._lock:
            self._worker = worker
        if self._stopping:  # it came after `stop` had looked
            _end(worker)
            return None
        news = _hear(worker)
        if news.get("ready"):
            self.model = news["model"]
            return worker
        if not self._stopping:
            message = news.get("error", "The process that localises did not start.")
            self._useless(ConfigError(message, news.get("remedy", "Its error message is printed above.")))
        return None

    def _do(self, job: Job, worker: subprocess.Popen[str]) -> None:
        with self._lock:
            self._job = job
        order = {"clip": job.clip, "folder": str(self._jobs.folder(job)), "name": job.name}
        with contextlib.suppress(BrokenPipeError):  # it is heard below that the worker has ended
            assert worker.stdin is not None
            worker.stdin.write(json.dumps(order) + "\n")
            worker.stdin.flush()
        if not self._wanted(job):  # cancelled before `cancel` could know who has it
            _end(worker)
        while "stage" in (news := _hear(worker)):
            self._jobs.update(job.id, stage=news["stage"], done=news["done"], total=news["total"])
        with self._lock:
            self._job = None
        if not self._wanted(job):
            _end(worker)  # before the next job, which might otherwise be hit by what was meant for this one
        elif news.get("finished"):
            self._jobs.update(job.id, state="done", stage="")
        elif news.get("failed"):
            self._jobs.update(job.id, state="failed", stage="", error=news["error"], remedy=news["remedy"])
        elif self._stopping:
            self._jobs.update(job.id, state="waiting", stage="", done=0, total=0)
        else:
            code = worker.wait()
            what = f"The process that worked on {job.name} ended with {code}."
            remedy = "There may not be enough memory, or the file is damaged: try a shorter part of it."
            self._jobs.update(job.id, state="failed", stage="", error=what, remedy=remedy)

    def _wanted(self, job: Job) -> bool:
        return any(other.id == job.id and other.state == "working" for other in self._jobs.all())


def _hear(worker: subprocess.Popen[str]) -> dict[str, Any]:
    """The next news of a worker; nothing if it has ended."""
    assert worker.stdout is not None
    line = worker.stdout.readline()
    news: dict[str, Any] = json.loads(line) if line.endswith("\n") else {}
    return news


def _end(worker: subprocess.Popen[str]) -> None:
    """End a worker, kindly first."""
    worker.terminate()
    try:
        worker.wait(_PATIENCE_S)
    except subprocess.TimeoutExpired:
        worker.kill()
        worker.wait()
