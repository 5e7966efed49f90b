from __future__ import annotations

from soundwhere.evaluation.published import find_published
from soundwhere.metrics.report import to_html
from soundwhere.reproduction.main_tables import main_tables, paper_figures

OURS = {"cap": {"value": 0.5, "low": 0.4, "high": 0.6}, "ciou@0.3": {"value": 0.3, "low": 0.2, "high": 0.4}}


def test_the_papers_figures_stand_beside_ours_and_who_read_labels_is_grey() -> None:
    rows = {
        "avgn": {"name": "avgn", "kind": "with labels"},
        "fnac": {"name": "fnac", "kind": "self-supervised"},
        "scav": {"name": "scav", "kind": "self-supervised"},
    }
    scores = dict.fromkeys((*rows, "constant"), OURS)
    benchmarks = {
        "real-duet test": {"truth": "masks", "scenes": 4, "scores": scores},
        "real-duet test, boxes": {"truth": "boxes", "scenes": 4, "scores": {"scav": OURS}},
    }
    masks, boxes = main_tables({"rows": rows, "benchmarks": benchmarks})
    assert (masks.title, boxes.title) == ("Mask table: real-duet test", "Box table: real-duet test")
    assert [row[0] for row in masks.rows] == ["avgn", "fnac", "scav"]
    cells = dict(zip(masks.head, masks.cells[2], strict=True))
    paper = find_published("SCAV", "vggsound-duet-mask").figures
    assert cells["CIoU@0.3, paper"].text == f"{paper['ciou@0.3']:.1f}"
    assert str(cells["CIoU@0.3, ours"]) == "30.0 (20.0 to 40.0)"
    assert cells["AUC, ours"].text == "-"
    assert dict(zip(masks.head, masks.cells[1], strict=True))["CAP, paper"].text == "-"  # no table has FNAC
    assert to_html(masks).count('class="faint"') == 1


def test_a_benchmark_of_the_paper_has_its_own_figures() -> None:
    assert paper_figures("music-duet", "boxes")[0] == "music-duet"
    assert paper_figures("real-trio test, boxes", "boxes")[0] == "vggsound-duet"
