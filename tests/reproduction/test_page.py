from __future__ import annotations

import json
from typing import TYPE_CHECKING

from soundwhere.analysis.report import Report
from soundwhere.errors import DataError
from soundwhere.metrics.bootstrap import Interval
from soundwhere.metrics.report import Table
from soundwhere.reproduction.claims import Claim, Statement
from soundwhere.reproduction.page import Page

if TYPE_CHECKING:
    from pathlib import Path


def test_a_part_that_fails_is_told_and_the_others_go_on(tmp_path: Path) -> None:
    page = Page(tmp_path, {"data": "made-up"}, {"music-duet": "No media."})
    said: list[str] = []

    def broken() -> None:
        raise DataError("The disk <is> full.", "Make room.")

    def sound() -> None:
        written = page.add("theory", "Theory", Report([Table("T", ("a",), (("1",),))], {"n": 1}), {"seed": 0})
        assert {path.parent for path in written} == {tmp_path / "theory"}
        page.claims.append(Claim("part", "a against b", "scenes", 0.1, Interval(0.1, 0.05, 0.2)))

    page.run({"broken": broken, "sound": sound}, said.append)
    assert any("broken could not be done: The disk <is> full. Make room." in line for line in said)
    text = (tmp_path / "index.html").read_text()
    assert "The disk &lt;is&gt; full." in text
    assert "No media." in text
    assert '<h2 id="part-2">Theory</h2>' in text
    assert "<b>The tables:</b> agrees: 1" in text
    assert "The appendix:" not in text
    page.statements.append(Statement("lemma", "1e-9", holds=False))
    assert page.verdicts() == {"The tables:": "agrees: 1", "The appendix:": "differs: 1"}
    found = json.loads((tmp_path / "claims.json").read_text())
    assert [each["verdict"] for each in found["claims"]] == ["agrees"]
    assert json.loads((tmp_path / "theory/theory.json").read_text())["n"] == 1
