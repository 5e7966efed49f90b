from __future__ import annotations

import math

from soundwhere.metrics.bootstrap import Interval
from soundwhere.metrics.report import Cell, Table, TableRow, figure_name, percent, to_html, to_latex, to_markdown

TABLE = Table(
    "50 % of_it & <more>",
    ("CAP", "a|b"),
    (
        TableRow("first_model", "method", (percent(Interval(0.5, 0.25, 0.75)), Cell("-"))),
        TableRow("blobs", "input-free", (Cell("1.0"), Cell("x | y"))),
    ),
    ("a note",),
)


def test_markdown_has_as_many_cells_in_every_line() -> None:
    text = to_markdown(TABLE)
    lines = [line.replace("\\|", "") for line in text.splitlines() if line.startswith("|")]
    assert len(lines) == 4
    assert {line.count("|") for line in lines} == {5}
    assert "50.0 (25.0 to 75.0)" in text
    assert text.endswith("a note\n")


def test_latex_is_escaped_and_separates_groups() -> None:
    text = to_latex(TABLE)
    assert r"50 \% of\_it \& <more>" in text
    assert r"first\_model & method & 50.0 {\scriptsize (25.0--75.0)} & - \\" in text
    assert text.count(r"\midrule") == 2
    assert text.count("{") == text.count("}")


def test_html_is_escaped() -> None:
    text = to_html(TABLE)
    assert "of_it &amp; &lt;more&gt;" in text
    assert text.count("<tr") == 3
    assert 'class="group"' in text


def test_figures() -> None:
    assert percent(None) == percent(Interval(math.nan, 0, 0)) == Cell("-")
    assert percent(Interval(-0.01, -0.02, 0.0), signed=True) == Cell("-1.0", "-2.0 to +0.0", "±1.0")
    assert [figure_name(name) for name in ("ciou@0.1", "auc", "unheard-of")] == ["CIoU@0.1", "AUC", "unheard-of"]
