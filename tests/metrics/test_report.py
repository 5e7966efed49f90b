from __future__ import annotations

import math

from soundwhere.metrics.bootstrap import Interval
from soundwhere.metrics.report import (
    Cell,
    Table,
    figure_name,
    figure_names,
    figures_table,
    percent,
    plain,
    to_html,
    to_latex,
    to_markdown,
)

TABLE = Table(
    "50 % of_it & <more>",
    ("answer", "kind", "CAP", "a|b"),
    (
        ("first_model", "method", percent(Interval(0.5, 0.25, 0.75)), "-"),
        ("blobs", "input-free", "1.0", "x | y"),
    ),
    ("a note",),
    groups=True,
)


def test_markdown_has_as_many_cells_in_every_line() -> None:
    text = to_markdown(TABLE)
    lines = [line.replace("\\|", "") for line in text.splitlines() if line.startswith("|")]
    assert len(lines) == 4
    assert {line.count("|") for line in lines} == {5}
    assert lines[1] == "| --- | --- | ---: | --- |"  # numbers stand at the right, words at the left
    assert "50.0 (25.0 to 75.0)" in text
    assert text.startswith("### 50 %")
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
    assert text.count('class="group"') == 1
    assert text.count("<small>") == 1


def test_only_groups_are_separated() -> None:
    plain_table = Table("t", TABLE.head, TABLE.rows)
    assert 'class="group"' not in to_html(plain_table)
    assert to_latex(plain_table).count(r"\midrule") == 1
    assert TABLE.ends == [True, True]
    assert plain_table.ends == [False, True]


def test_an_empty_table_is_written_too() -> None:
    empty = Table("nothing", ("a", "b"), ())
    assert to_markdown(empty).count("|") == 6
    assert "<table>" in to_html(empty)


def test_figures() -> None:
    assert percent(None) == percent(Interval(math.nan, 0, 0)) == Cell("-")
    assert percent(Interval(-0.01, -0.02, 0.0), signed=True) == Cell("-1.0", "-2.0 to +0.0", "±1.0")
    assert plain(None) == Cell("-")
    assert [figure_name(name) for name in ("ciou@0.1", "auc", "unheard-of")] == ["CIoU@0.1", "AUC", "unheard-of"]


def test_a_table_of_figures() -> None:
    rows = {"a": {"cap": Interval(0.5, 0.4, 0.6), "drop": Interval(0.1, 0.0, 0.2)}, "chance": {"cap": "33.3"}}
    columns = {**figure_names(["cap", "auc"]), "drop": "drop CAP"}
    table = figures_table("t", rows, columns, "a note", kinds={"a": "method"}, signed={"drop"})
    assert table.head == ("answer", "kind", "CAP", "AUC", "drop CAP")
    assert [[cell.text for cell in row] for row in table.cells] == [
        ["a", "method", "50.0", "-", "+10.0"],
        ["chance", "", "33.3", "-", "-"],
    ]
    assert figures_table("t", rows, {"cap": "CAP"}, first="row").head == ("row", "CAP")
