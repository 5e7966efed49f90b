from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from soundwhere.data.annotation.findings import Defect, Findings
from soundwhere.data.annotation.records import find_annotation, read_headless, read_json, require_unique
from soundwhere.errors import DataError

if TYPE_CHECKING:
    from pathlib import Path


def test_an_empty_file_is_called_empty(tmp_path: Path) -> None:
    path = tmp_path / "empty.json"
    path.write_text("\n")
    with pytest.raises(DataError, match=r"empty\.json is empty"):
        read_json(path)


def test_malformed_json_names_line_and_column(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"a": 1,\n "b": }')
    with pytest.raises(DataError, match=r"a\.json, line 2, column 7"):
        read_json(path)
    path.write_text('{"a": 1, "a": 2}')
    with pytest.raises(DataError, match="'a' appears twice"):
        read_json(path)
    path.write_text("[" * 100_000)
    with pytest.raises(DataError, match=r"a\.json"):
        read_json(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(DataError, match=r"a\.json"):
        read_json(path)


def test_a_line_with_too_few_cells_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('a,"b, c"\nd\n')
    with pytest.raises(DataError, match=r"a\.csv, line 2"):
        read_headless(path, ("x", "y"))
    path.write_text('a,"b, c"\n')
    assert read_headless(path, ("x", "y"))[0]["y"] == "b, c"
    path.write_text("a,\n")
    with pytest.raises(DataError, match="line 1"):
        read_headless(path, ("x", "y"))
    path.write_text("")
    with pytest.raises(DataError, match="no rows"):
        read_headless(path, ("x", "y"))


def test_files_are_found_in_their_folder_or_flat(tmp_path: Path) -> None:
    (tmp_path / "flat.csv").touch()
    assert find_annotation(tmp_path, "who/flat.csv", "example.org") == tmp_path / "flat.csv"
    with pytest.raises(DataError) as caught:
        find_annotation(tmp_path, "who/absent.csv", "example.org")
    assert "example.org" in caught.value.remedy
    with pytest.raises(DataError, match="b appears twice"):
        require_unique(["a", "b", "b"], tmp_path)


def test_findings_read_well() -> None:
    defects = (Defect("boxes are empty", 1234, "dropped", ("a", "b", "c", "d")), Defect("flies", 0, "none"))
    findings = Findings("who/file.json", {"clips": 5158, "classes": 221}, defects)
    assert str(findings).splitlines() == [
        "who/file.json: 5 158 clips, 221 classes",
        "  1 234 boxes are empty: dropped (a, b, c, ...)",
    ]
