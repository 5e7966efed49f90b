"""The constant pair on the published VGGSound-Duet boxes: an answer that neither sees nor hears."""

import csv
import json
from pathlib import Path

import pytest
import torch

from soundwhere.metrics.baselines import constant_cells
from soundwhere.metrics.pairs import concatenate, summarise
from soundwhere.metrics.presets import PRESETS, score

ANNOTATIONS = Path(__file__).parents[3] / "shared" / "data" / "annotations"


@pytest.fixture(scope="module")
def duets():
    """Every eighth of the 5 158 duets: the two masks of each, shape (645, 2, 224, 448)."""
    boxes_file, pairs_file = ANNOTATIONS / "lvs" / "vggss.json", ANNOTATIONS / "avgn" / "vggsound_duet_test.csv"
    if not (boxes_file.exists() and pairs_file.exists()):
        pytest.skip("the upstream annotation files are not here")
    boxes = {entry["file"]: entry["bbox"] for entry in json.loads(boxes_file.read_text())}
    with pairs_file.open() as file:
        rows = list(csv.reader(file))
    assert len(rows) == 5158
    truth = torch.zeros(len(rows[::8]), 2, 224, 448, dtype=torch.bool)
    for scene, (first, _, second, _) in enumerate(rows[::8]):
        for source, name in enumerate((first, second)):
            for box in boxes[name]:
                x0, y0, x1, y1 = (int(224 * min(max(value, 0), 1)) for value in box)
                truth[scene, source, y0:y1, 224 * source + x0 : 224 * source + x1] = True
    return truth


def test_the_constant_pair_beats_the_paper(duets):
    maps = constant_cells(224, 448, (1, 2), sigma_px=70)
    parts = [score(maps.expand(len(part), -1, -1, -1), part, PRESETS["scav"]) for part in duets.split(43)]
    summary = summarise(concatenate(parts))
    # all 5 158 rows: 60.7 / 89.3 / 61.9 / 37.1; a subsample strays by about its standard error
    full = {"cap": 0.607, "ciou@0.1": 0.893, "ciou@0.3": 0.619, "auc": 0.371}
    for name, value in full.items():
        assert summary[name] == pytest.approx(value, abs=0.03)
    assert summary["leakage"] == 0
    # the paper's own figures
    assert summary["cap"] > 0.530
    assert summary["ciou@0.1"] > 0.832
    assert summary["ciou@0.3"] > 0.533
    assert summary["auc"] > 0.320
