"""Tables on a terminal, and in a file that the output goes to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console

from soundwhere.metrics.bootstrap import Interval
from soundwhere.metrics.report import Table, percent
from soundwhere.terminal import tables

if TYPE_CHECKING:
    import pytest

FIGURES = ("CAP", "CIoU@0.1", "CIoU@0.3", "CIoU@0.5", "AUC", "mean IoU", "pointing", "leakage", "drop CAP")
CELLS = (percent(Interval(0.511, 0.441, 0.581)),) * len(FIGURES)
LABELS = ("constant pair, sigma 70 px (best on val)", "input-free")
TABLE = Table("a title", ("answer", "kind", *FIGURES), ((*LABELS, *CELLS),), ("a note",), groups=True)


def test_a_file_gets_whole_lines(capsys: pytest.CaptureFixture[str]) -> None:
    tables.print_tables([TABLE])
    lines = [line.strip() for line in capsys.readouterr().out.splitlines() if line.strip()]
    assert lines[0] == "a title"
    assert lines[-1] == "a note"
    assert [line for line in lines if line.startswith("constant pair, sigma 70 px (best on val)   input-free")]
    assert any(line.count("44.1 to 58.1") == len(FIGURES) for line in lines)


def test_a_narrow_terminal_gets_half_widths(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "Console", lambda **_: Console(force_terminal=True, width=80, no_color=True))
    tables.print_tables([TABLE])
    out = capsys.readouterr().out
    assert out.count("±7.0") == len(FIGURES)
    assert " to " not in out
    assert "…" not in out
    assert "input-free" not in out
