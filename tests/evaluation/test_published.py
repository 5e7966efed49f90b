from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING

import pytest

from soundwhere.data.benchmarks.catalogue import BENCHMARKS
from soundwhere.evaluation.published import compare_published, find_published, published
from soundwhere.metrics.presets import PRESETS

if TYPE_CHECKING:
    from pathlib import Path

COUNTS = {
    "tab:two_bbox_datasets": 26,
    "tab:two_mask_datasets_vertical": 16,
    "tab:selective_convergence": 2,
    "tab:ablation": 10,
    "tab:ablation_algorithm1": 4,
}


def test_every_row_is_of_a_known_benchmark_and_evaluation() -> None:
    rows = published()
    assert {row.benchmark for row in rows} <= set(BENCHMARKS)
    assert {row.preset for row in rows} <= {*PRESETS, "unknown"}
    assert {table: sum(row.table == table for row in rows) for table in COUNTS} == COUNTS
    assert len({(row.benchmark, row.method, row.table) for row in rows}) == len(rows)


@pytest.mark.parametrize("table", COUNTS)
def test_the_figures_are_those_of_the_paper(table: str, shared: Path) -> None:
    """Every figure of the table in the paper's source, in its order, without differences in brackets."""
    text = (shared / "paper" / "scav-eccv2026.tex").read_text(encoding="utf-8")
    start = text.index(rf"\label{{{table}}}")
    body = text[text.index(r"\midrule", start) : text.index(r"\bottomrule", start)]
    body = re.sub(r"\\textcolor\{BrickRed\}\{[^}]*\}|\\cite\{[^}]*\}|\\cmidrule\S*|[\w-]+'\d{4}", "", body)
    expected = sorted(float(number) for number in re.findall(r"(?<![\d.])\d+\.\d+(?!\d)", body))
    ours = [figure for row in published() if row.table == table for figure in row.figures.values()]
    assert sorted(ours) == expected


@pytest.mark.parametrize(
    ("preset", "method"),
    [
        ("scav", "SCAV"),
        ("lvs", "LVS"),
        ("ez-vsl", "EZ-VSL"),
        ("avgn", "AVGN"),
        ("noprior", "NoPrior"),
        ("dsol", "DSOL"),
        ("coarse-to-fine", "CoarsetoFine"),
        ("jsa", "Slot-Attn"),  # as the paper calls it
    ],
)
def test_presets_and_published_rows_name_the_same_venue(preset: str, method: str) -> None:
    venues = {row.venue for row in published() if row.method == method}
    assert len(venues) == 1
    assert f"({venues.pop()})" in PRESETS[preset].origin


def test_other_protocols_are_marked_and_warned_about() -> None:
    table, warnings = compare_published("vggsound-duet", PRESETS["scav"], 5158, {"mine": {"cap": 0.5, "auc": 0.25}})
    assert table is not None
    lines = {line[0].text: [cell.text for cell in line[2:]] for line in table.cells}
    assert lines["mine"][:4] == ["50.0", "-", "-", "25.0"]
    assert "(!)" in lines["AVGN (CVPR 2023), with labels"][4]
    assert "(!)" not in lines["SCAV (ECCV 2026)"][4]
    assert "AVGN" in warnings[0]
    assert "SCAV" not in warnings[0].split(":")[1].split("They")[0]
    assert any("5 158" in warning and "3 951" in warning for warning in warnings)
    assert "scav: The rule is not in the paper; its numbers fit minmax-0.5." in warnings
    _, warnings = compare_published("vggsound-duet", PRESETS["lvs"], 3951, {})
    assert "lvs: Made for one source in one frame." in warnings  # what a reader of any preset's numbers has to know
    median = dataclasses.replace(PRESETS["scav"], name="scav with median", rule="median")
    marked, _ = compare_published("vggsound-duet", median, 3951, {})
    assert marked is not None
    assert all("(!)" in line[-2].text for line in marked.cells)


def test_nothing_published() -> None:
    table, warnings = compare_published("real-duet", PRESETS["scav"], 10, {})
    assert table is None
    assert "real-duet" in warnings[0]


def test_a_line_is_found_by_method_and_benchmark() -> None:
    assert find_published("SCAV, full", "vggsound-duet-mask").figures["cap"] == 39.3
    assert find_published("SCAV, full", "vggsound-duet").figures["cap"] == 52.96
