"""How proposals are measured, and how `propose` tells where it is."""

from __future__ import annotations

import csv
import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from PIL import Image as Pillow

from soundwhere.annotate.proposals import choose_photos, score_proposals, summarise
from soundwhere.annotate.segmenter.protocol import Candidate, Embedding
from soundwhere.cli.main import run
from soundwhere.errors import DataError
from soundwhere.terminal import progress

if TYPE_CHECKING:
    from pathlib import Path

    from soundwhere.annotate.project import Project

SIZE = (40, 60)
PHOTOS = 9


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """As real-duet: nine photos of a thing 2 to 10 columns wide in a box of 20, and one without a human mask."""
    root = tmp_path / "photos"
    root.mkdir()
    rows = []
    for number in range(PHOTOS + 1):
        mask = np.zeros(SIZE, bool)
        mask[10:30, 10 : 12 + number] = True
        Pillow.fromarray(np.where(mask[..., None], 200, 50).repeat(3, 2).astype(np.uint8)).save(root / f"{number}.png")
        Pillow.fromarray(mask).save(root / f"mask{number}.png")
        box = json.dumps([[10 / 60, 10 / 40, 30 / 60, 30 / 40]])
        kind = "human" if number < PHOTOS else "derived"
        rows.append([f"{number}.png", "thing", "val", f"mask{number}.png", kind, box])
    with (root / "images.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["image", "class", "split", "mask", "mask_kind", "boxes"], *rows])
    return root


class Known:
    """Proposes the box, the truth and nothing, in that order; only its scores say which is which."""

    name = "known"

    def embed(self, image: Any) -> Embedding:
        return Embedding(image.shape[:2], {"image": image})

    def propose(self, embedding: Embedding, box: Any) -> list[Candidate]:
        truth = embedding.arrays["image"][..., 0] > 100
        left, top, right, bottom = map(round, box)
        whole = np.zeros(embedding.size, bool)
        whole[top:bottom, left:right] = True
        return [Candidate(whole, 0.5), Candidate(truth, 0.9), Candidate(~whole, 0.2)]

    def refine(self, *_: Any) -> Any:
        raise NotImplementedError


def test_the_figures_are_those_of_the_masks(photos: Path) -> None:
    rows = choose_photos(photos, "val", PHOTOS)
    found = score_proposals(Known(), rows)
    for number, one in enumerate(found):
        share = (2 + number) / 20  # of the box that the thing fills
        assert one.iou == {"box": pytest.approx(share), "given": pytest.approx(share), "best": 1.0, "any": 1.0}
        assert (one.fill, one.size) == (pytest.approx(share), pytest.approx(400 / 2400))
        assert (one.scored_first, one.right) == (False, True)
    lines = summarise(found)
    assert [line.boxes for line in lines] == [PHOTOS] + [3] * 6
    assert lines[0].iou["box"].value == pytest.approx(6 / 20)
    assert [line.iou["box"].value for line in lines[4:]] == [pytest.approx(share) for share in (3 / 20, 6 / 20, 9 / 20)]
    assert lines[0].iou["best"].low == lines[0].iou["best"].high == 1


def test_photos_are_spread_over_the_list_and_too_many_are_refused(photos: Path) -> None:
    assert [row["image"] for row in choose_photos(photos, "val", 3)] == ["0.png", "3.png", "6.png"]
    for split, count in (("val", PHOTOS + 1), ("test", 1), ("val", 0)):
        with pytest.raises(DataError, match="with a human mask and one box"):
            choose_photos(photos, split, count)


def test_the_command_prints_and_writes_the_figures(
    photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, figures = tmp_path / "each.csv", tmp_path / "figures.json"
    command = ["benchmark", "propose-score", "--data", str(photos), "--json", str(figures), "--photos", "6"]
    command += ["--out", str(out)]
    assert run(command) == 0
    printed = capsys.readouterr().out
    assert "6 photos of val, one box each, by simple-1" in printed
    assert "key 1: best score" in printed
    with out.open() as file:
        each = list(csv.DictReader(file))
    assert len(each) == 6
    assert all(float(row["any"]) >= float(row["best"]) for row in each)
    kept = json.loads(figures.read_text())
    assert kept["command"] == "soundwhere benchmark propose-score --segmenter simple --split val --photos 6"
    assert kept["rows"][0]["boxes"] == 6
    mean = sum(float(row["best"]) for row in each) / 6
    assert kept["rows"][0]["iou"]["best"]["value"] == pytest.approx(mean, abs=1e-4)
    assert run([*command[:-4], "--photos", "99"]) == 2
    assert run(["benchmark", "propose-score", "--data", str(tmp_path / "nowhere")]) == 2


def test_propose_tells_how_long_it_takes_and_goes_on_where_it_was(
    project: Project, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "PLAIN_EVERY_S", 0.0)
    broken = project.picture_path(project.store.frame(2))
    kept = broken.read_bytes()
    broken.write_bytes(b"no picture")
    assert run(["benchmark", "propose", str(project.root)]) == 1
    out, err = capsys.readouterr()
    lines = [line for line in err.splitlines() if line.startswith("proposing")]
    assert [line.split(",")[0] for line in lines] == [f"proposing {done}/4 frames" for done in range(1, 5)]
    assert all(line.endswith(" left") for line in lines)
    assert "clip_000010: " in err
    assert "candidates of 3 frames" in out
    broken.write_bytes(kept)
    assert run(["benchmark", "propose", str(project.root)]) == 0
    out, err = capsys.readouterr()
    assert "3 of 4 frames were ready before" in out
    assert "proposing 1/1 frames" in err
