"""Processes: every item is answered or known to be lost, and none of them outlives its work."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from multiprocessing.util import Finalize
from typing import TYPE_CHECKING, Any

import pytest

from soundwhere.errors import ConfigError, SoundwhereError
from soundwhere.inference.pool import Died, Told, Worker, work_through

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from soundwhere.inference.pool import Tell


def double(item: int) -> int:
    if item < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return 2 * item


def make_double(_: Tell) -> Callable[[int], int]:
    return double


def make_counter(tell: Tell) -> Callable[[int], str]:
    def count(item: int) -> str:
        for number in range(item):
            tell(number)
        return "done"

    tell("ready")
    return count


def make_nothing(_: Tell) -> Callable[[int], int]:
    raise ConfigError("No such tool.", "Buy one.")


class Slow:
    """Holds a file for ten minutes and removes it when told to end; `quick` answers once `slow` has begun."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "held"

    def __call__(self, _: Tell) -> Callable[[str], str]:
        return self.work

    def work(self, item: str) -> str:
        while item == "quick" and not self.path.exists():
            time.sleep(0.05)
        if item == "slow":
            try:
                self.path.touch()
                time.sleep(600)
            finally:
                self.path.unlink()
        return item


def test_every_item_is_answered_even_after_a_death() -> None:
    answers = dict(work_through([1, -1, 2, 3], make_double, 2))
    assert answers == {1: 2, 2: 4, 3: 6, -1: Died(-signal.SIGKILL)}
    assert list(work_through([], make_double, 2)) == []


def test_what_cannot_begin_says_why() -> None:
    with pytest.raises(SoundwhereError, match="No such tool"):
        list(work_through([1, 2], make_nothing, 2))


def test_leaving_early_ends_every_process_cleanly(tmp_path: Path) -> None:
    answers: Any = work_through(["quick", "slow"], Slow(tmp_path), 2)
    assert next(answers) == ("quick", "quick")
    assert [path.name for path in tmp_path.iterdir()] == ["held"]
    answers.close()
    assert list(tmp_path.iterdir()) == []


def test_news_comes_before_the_answer_and_is_no_answer() -> None:
    worker = Worker(make_counter)
    worker.give(2)
    assert [worker.hear() for _ in range(4)] == [Told("ready"), Told(0), Told(1), "done"]
    worker.end()
    assert dict(work_through([1, 2], make_counter, 1)) == {1: "done", 2: "done"}


def test_a_process_is_ended_in_the_middle_of_its_work(tmp_path: Path) -> None:
    worker = Worker(Slow(tmp_path))
    worker.give("slow")
    while not (tmp_path / "held").exists():
        time.sleep(0.02)
    worker.end()
    assert list(tmp_path.iterdir()) == []
    assert not worker.alive
    worker.give("quick")
    assert worker.hear() == Died(0)


def make_told_while_ending(_: Any) -> Any:
    """The process is told to end when it has nothing to do any more, and is ending."""
    Finalize(None, os.kill, (os.getpid(), signal.SIGTERM), exitpriority=1)
    return str


def test_being_told_to_end_while_ending_is_no_news(capfd: pytest.CaptureFixture[str]) -> None:
    worker = Worker(make_told_while_ending)
    worker.give(7)
    assert worker.hear() == "7"
    worker.dismiss()
    assert worker._reap() == 0
    assert capfd.readouterr().err == ""


STARTING = """
import os, signal, sys
from soundwhere.inference.pool import Worker
class Late:
    def __setstate__(self, _):  # runs in the new process, before it has begun to work
        os.killpg(0, signal.SIGINT)
    def __getstate__(self):
        return {"sent": 0}
    def __call__(self, tell):
        return str
if __name__ == "__main__":
    signal.signal(signal.SIGINT, lambda *_: None)  # the process itself is what counts here
    worker = Worker(Late())
    worker.give(7)
    print(worker.hear())
    worker.end()
"""


def test_ctrl_c_while_a_process_starts_is_not_its_concern(tmp_path: Path) -> None:
    (tmp_path / "starting.py").write_text(STARTING)
    command = [sys.executable, str(tmp_path / "starting.py")]
    answer = subprocess.run(command, capture_output=True, text=True, start_new_session=True, timeout=60)
    assert (answer.stdout, answer.stderr) == ("7\n", "")
