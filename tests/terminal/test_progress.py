"""Progress in a file that the output goes to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from soundwhere.terminal import progress

if TYPE_CHECKING:
    import pytest


def test_without_a_terminal_a_line_is_printed_every_half_minute(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr(progress.time, "monotonic", lambda: now)
    with progress.Bar("scoring", 500, "scenes") as bar:
        for done in range(16, 500, 16):
            now += 7
            bar.update(done, 500)
    lines = capsys.readouterr().err.splitlines()
    assert lines[:2] == ["scoring 80/500 scenes, 0:35, 3:03 left", "scoring 160/500 scenes, 1:10, 2:28 left"]
    assert len(lines) == 6


def test_a_bar_that_nobody_asked_for_says_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    times = iter(range(0, 9000, 100))
    monkeypatch.setattr(progress.time, "monotonic", lambda: float(next(times)))
    with progress.Bar("localising", 10, show=False) as bar:
        bar.update(5, 10)
    assert capsys.readouterr().err == ""
