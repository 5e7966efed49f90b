"""From boxes to masks in a real browser to a score, by the commands a user types."""

from __future__ import annotations

import json
import re
import shutil
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from soundwhere.annotate.agreement import mask_iou
from soundwhere.cli.main import run
from soundwhere.data.annotation.masks import read_mask

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.mark.browser
def test_from_boxes_to_masks_in_the_browser_to_a_score(
    media: Path,
    clip_path: Path,
    tmp_path: Path,
    start: Callable[..., Any],
    visit: Callable[..., Any],
    capsys: pytest.CaptureFixture[str],
) -> None:
    clips, project, out = tmp_path / "clips", tmp_path / "project", tmp_path / "masks-1.0"
    for folder, name in (("frames", "clip_000000.png"), ("audio", "clip_000000.wav")):
        (clips / folder).mkdir(parents=True)
        shutil.copy(media / folder / name, clips / folder)
    shutil.copy(clip_path, clips / "film_000010.mp4")  # in its middle the white square is at (40, 24) to (56, 40)
    manifest = tmp_path / "boxes.csv"
    manifest.write_text(
        'id,kind,boxes\nclip_000000,dog barking,"[[36, 16, 84, 64]]"\nfilm_000010,machine,"[[37, 21, 59, 43]]"\n'
    )
    init = ["benchmark", "init", str(project), "--manifest", str(manifest), "--data", str(clips), "--double", "0"]
    assert run(init) == 0
    assert run(["benchmark", "propose", str(project)]) == 0

    ann = visit(start(project).address, "ann")
    assert ann.name() == "clip_000000"
    ann.click(60, 40)  # a point alone
    ann.saved()
    ann.click(4, 96, "right")
    ann.saved()
    ann.confirm(1)
    ann.leave()
    assert ann.name() == "film_000010"
    ann.press("1")
    ann.confirm(1)
    ann.leave()
    ann.expect(ann.page.locator("#kind")).to_have_text("You are done")
    assert ann.complaints == []

    assert run(["benchmark", "export", str(project), "--out", str(out)]) == 0
    assert run(["benchmark", "verify", str(out)]) == 0
    rows, columns = np.mgrid[:100, :150]
    disc = np.hypot(rows - 40, columns - 60) <= 22
    square = np.zeros((64, 96), bool)
    square[24:40, 40:56] = True
    for name, truth in (("clip_000000", disc), ("film_000010", square)):
        assert mask_iou(read_mask(out / "masks" / "pkl" / f"{name}.pkl"), truth) > 0.8

    capsys.readouterr()
    places = ["--data", str(clips), "--annotations", str(out), "--masks", str(out / "masks" / "pkl")]
    pairing = ["--pairing", str(out / "duets.csv"), "--out", str(tmp_path / "scores"), "--no-page"]
    assert run(["evaluate", "--benchmark", "vggsound-duet-mask", *places, *pairing, "--model", "scav-tiny"]) == 0
    printed = capsys.readouterr().out
    assert "scoring 2 scenes" in printed
    score = re.search(r"^ scav-tiny +method +([\d.]+)", printed, re.MULTILINE)
    assert score is not None, printed
    assert 0 <= float(score[1]) <= 100  # CAP, in percent
    results = json.loads((tmp_path / "scores" / "results.json").read_text())["benchmark"]
    assert (results["truth"], results["scenes_scored"], results["scenes_missing"]) == ("masks", 2, 0)
