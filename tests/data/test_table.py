from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from soundwhere.data.table import read_table
from soundwhere.errors import DataError

if TYPE_CHECKING:
    from pathlib import Path


def table(folder: Path, text: str | bytes) -> Path:
    path = folder / "table.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_keeps_only_the_columns_asked_for(tmp_path):
    rows = read_table(table(tmp_path, '\ufeffid,class,"a b"\n1,dog,"x,\ny"\n2,cat,z\n'), ("id", "a b"))
    assert [row.values for row in rows] == [{"id": "1", "a b": "x,\ny"}, {"id": "2", "a b": "z"}]
    assert rows[1].place.endswith("table.csv, line 4")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id,image\n1,x\n", "no column 'audio'"),
        ("", "no column"),
        ("id,audio\n", "no rows"),
        ("id,audio\n1,a\n2\n", "line 3: not 2 cells"),
        ("id,audio\n1,a,b\n", "line 2: not 2 cells"),
        ('id,audio\n1,"a\n', "cannot be read as CSV"),
        (b"id,audio\n1,\xff\n", "cannot be read as CSV"),
    ],
)
def test_says_what_is_wrong_and_what_to_do(tmp_path, text, message):
    with pytest.raises(DataError, match=message) as caught:
        read_table(table(tmp_path, text), ("id", "audio"))
    assert caught.value.remedy


def test_missing_table(tmp_path):
    with pytest.raises(DataError, match=r"none\.csv does not exist"):
        read_table(tmp_path / "none.csv", ("id",))


@pytest.mark.parametrize("value", ["../secret", "a/../../secret", "/etc/hostname", "C:\\secret", "..\\secret", ""])
def test_a_path_may_not_leave_the_folder(tmp_path, value):
    row = read_table(table(tmp_path, f"path,x\n{value},1\n"), ("path",))[0]
    with pytest.raises(DataError, match=r"line 2: .* is outside"):
        row.file(row["path"])


def test_a_file_that_is_missing(tmp_path):
    row = read_table(table(tmp_path, "path\nimages/a.jpg\n"), ("path",))[0]
    with pytest.raises(DataError, match=r"line 2: images/a\.jpg is missing"):
        row.file(row["path"])
