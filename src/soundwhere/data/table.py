"""CSV tables of a data set, read with errors that name the line."""

from __future__ import annotations

import csv
import gzip
import zlib
from dataclasses import dataclass
from pathlib import Path, PureWindowsPath
from typing import TYPE_CHECKING

from soundwhere.errors import DataError, reason
from soundwhere.files import is_file

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class Row:
    """One line of a table, with only the columns that were asked for."""

    table: Path
    line: int
    values: dict[str, str]

    def __getitem__(self, column: str) -> str:
        return self.values[column]

    @property
    def place(self) -> str:
        """Where the row stands, for errors."""
        return f"{self.table}, line {self.line}"

    def inside(self, value: str, folder: Path) -> Path:
        """The path a value names, relative to a folder, which it may not leave."""
        parts = PureWindowsPath(value)  # knows both kinds of slash
        if not value or "\0" in value or parts.anchor or ".." in parts.parts:
            raise DataError(
                f"{self.place}: {value!r} is outside the data set's folder.",
                "Correct that line: paths are relative to the folder and stay inside it.",
            )
        return folder / value

    def file(self, value: str) -> Path:
        """The file a value names, relative to the table's folder, which it may not leave."""
        path = self.inside(value, self.table.parent)
        if not is_file(path):
            raise DataError(f"{self.place}: {value} is missing.", "Copy the data set again, completely.")
        return path


def read_table(path: Path, columns: Sequence[str], optional: Sequence[str] = ()) -> list[Row]:
    """Read some columns of a CSV file with a header line, also one packed by gzip (.gz); other columns are not kept.

    Args:
        path: The file.
        columns: Those that it must have.
        optional: Those that are kept if it has them.

    Raises:
        DataError: The file is missing, is not CSV, lacks a column or has no rows, or a row has too few or many cells.
    """
    try:
        reads = gzip.open if path.suffix == ".gz" else open
        with reads(path, "rt", encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file, strict=True)
            absent = [column for column in columns if column not in (reader.fieldnames or ())]
            if absent:
                raise DataError(
                    f"{path} has no column {', '.join(map(repr, absent))}, but: {', '.join(reader.fieldnames or ())}.",
                    "Its first line must name the columns, separated by commas: correct it, or copy the file again.",
                )
            kept = [*columns, *(column for column in optional if column in (reader.fieldnames or ()))]
            rows = []
            for cells in reader:
                if None in cells or None in cells.values():
                    expected = len(reader.fieldnames or ())
                    raise DataError(f"{path}, line {reader.line_num}: not {expected} cells.", "Correct that line.")
                rows.append(Row(path, reader.line_num, {column: cells[column] for column in kept}))
    except (FileNotFoundError, NotADirectoryError) as error:
        raise DataError(f"{path} does not exist.", "Give the folder that holds the whole data set.") from error
    except (OSError, EOFError, UnicodeDecodeError, csv.Error, zlib.error) as error:
        raise DataError(f"{path} cannot be read as CSV: {reason(error)}.", "Copy the data set again.") from error
    if not rows:
        raise DataError(f"{path} has no rows.", "Copy the data set again.")
    return rows
