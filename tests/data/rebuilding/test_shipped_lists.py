"""The lists that ship are those of the sets, and hold no photo and no sound."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from soundwhere.data.rebuilding.lists import ADDED, COLUMNS, SHIPPED, read_lists, shipped
from soundwhere.data.rebuilding.sources import file_of, phrase_sources
from soundwhere.data.table import Row, read_table

if TYPE_CHECKING:
    from pathlib import Path

LARGEST = 4 << 20  # bytes of all lists together


def test_lists_are_small_tables_and_nothing_else() -> None:
    files = [path for path in SHIPPED.rglob("*") if path.is_file()]
    assert files
    assert {path.name.removesuffix(".csv.gz") for path in files} <= set(COLUMNS)
    assert sum(path.stat().st_size for path in files) < LARGEST


@pytest.mark.parametrize("name", shipped())
def test_every_row_has_a_source_that_is_known(name: str) -> None:
    lists = read_lists(name)
    for row in lists["images"]:
        assert file_of(row["image_source"])
        assert row["print"]
    for row in lists["audios"]:
        assert bool(row["print"]) == bool(row["samples"]) == bool(file_of(row["audio_source"]))
        assert row["print"] or phrase_sources(row["audio_source"])


@pytest.mark.parametrize("name", shipped())
def test_lists_are_those_of_the_set(name: str, shared: Path, list_script) -> None:
    folder = shared / "data" / name
    if not folder.is_dir():
        pytest.skip(f"needs {name} in shared/data/ beside the repository")
    lists = read_lists(name)
    for table, columns in COLUMNS.items():
        if (folder / f"{table}.csv").is_file():
            listed = [{column: row[column] for column in columns} for row in lists[table]]
            assert listed == [row.values for row in read_table(folder / f"{table}.csv", columns)], table
    columns = {"images": list_script.photo_columns, "audios": list_script.sound_columns}
    for table, make in columns.items():
        rows = lists[table]
        for row in rows[:: len(rows) // 20]:
            own = Row(folder / f"{table}.csv", row.line, row.values)
            assert {column: row[column] for column in ADDED[table]} == make(own)
