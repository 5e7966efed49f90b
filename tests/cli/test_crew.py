from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING

import pytest

from soundwhere.cli.crew import Died, work_through
from soundwhere.errors import ConfigError, SoundwhereError

if TYPE_CHECKING:
    from pathlib import Path


def double(item: int) -> int:
    if item < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return 2 * item


def make_double() -> object:
    return double


def make_nothing() -> object:
    raise ConfigError("No such tool.", "Buy one.")


class Slow:
    """Holds a file for ten minutes and removes it when told to end; `quick` answers once `slow` has begun."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "held"

    def __call__(self) -> object:
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
    answers = dict(work_through([1, -1, 2, 3], make_double, 2))  # type: ignore[arg-type]
    assert answers == {1: 2, 2: 4, 3: 6, -1: Died(-signal.SIGKILL)}
    assert list(work_through([], make_double, 2)) == []  # type: ignore[arg-type]


def test_what_cannot_begin_says_why() -> None:
    with pytest.raises(SoundwhereError, match="No such tool"):
        list(work_through([1, 2], make_nothing, 2))  # type: ignore[arg-type]


def test_leaving_early_ends_every_process_cleanly(tmp_path: Path) -> None:
    answers = work_through(["quick", "slow"], Slow(tmp_path), 2)  # type: ignore[arg-type]
    assert next(answers) == ("quick", "quick")
    assert [path.name for path in tmp_path.iterdir()] == ["held"]
    answers.close()  # type: ignore[attr-defined]
    assert list(tmp_path.iterdir()) == []
