"""Annotation files as their authors publish them, read with errors that name the place."""

from __future__ import annotations

import csv
import json
from typing import TYPE_CHECKING, Any

from soundwhere.data.table import Row
from soundwhere.errors import DataError, reason, shown
from soundwhere.files import is_file, parse_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path


def find_annotation(folder: Path, name: str, origin: str) -> Path:
    """An annotation file in a folder, by its full name (`lvs/vggss.json`) or by its last part alone.

    Args:
        folder: Where annotation files are kept.
        name: The file with the folder its authors' files are kept in.
        origin: Where it is published, for the error.
    """
    for path in (folder / name, folder / name.rsplit("/", 1)[-1]):
        if is_file(path):
            return path
    raise DataError(
        f"{folder / name} does not exist.", f"Get it from {origin} and give the folder it is in with --annotations."
    )


def read_json(path: Path) -> Any:
    """Read a JSON file to the letter; see `parse_json`.

    Raises:
        DataError: It is missing or malformed; the message gives line and column.
    """
    try:
        content = path.read_bytes()
        if not content.strip():
            raise DataError(f"{path} is empty.", "Get the file again.")
        return parse_json(content)
    except json.JSONDecodeError as error:
        raise DataError(
            f"{path}, line {error.lineno}, column {error.colno}: {error.msg}.", "Correct the file, or get it again."
        ) from error
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read as JSON: {reason(error)}.", "Get the file again.") from error


def read_headless(path: Path, columns: Sequence[str]) -> list[Row]:
    """Read a CSV file without a header line.

    Args:
        path: The file.
        columns: What its cells are called here, from left to right.

    Raises:
        DataError: It is missing, empty or no CSV, or a line has another number of cells, or an empty one.
    """
    rows = []
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, strict=True)
            for cells in reader:
                if len(cells) != len(columns) or not all(cells):
                    raise DataError(
                        f"{path}, line {reader.line_num}: {len(cells)} cells, or an empty one.",
                        f"A line has {len(columns)} cells: {', '.join(columns)}.",
                    )
                rows.append(Row(path, reader.line_num, dict(zip(columns, cells, strict=True))))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path} cannot be read as CSV: {reason(error)}.", "Get the file again.") from error
    if not rows:
        raise DataError(f"{path} has no rows.", "Get the file again.")
    return rows


def read_list(folder: Path, name: str, columns: Sequence[str], origin: str) -> list[Row]:
    """Find an annotation file without a header line, and read it; each of its lines begins with another name."""
    path = find_annotation(folder, name, origin)
    rows = read_headless(path, columns)
    require_unique((row[columns[0]] for row in rows), path)
    return rows


def read_entries(path: Path, kind: type, what: str, origin: str) -> Any:
    """Read a JSON file that holds entries: a list of them, or a table from names to them, as `kind` says."""
    entries = read_json(path)
    if not isinstance(entries, kind) or not entries:
        raise DataError(f"{path} is not a {what}.", f"Get it from {origin}.")
    return entries


def require_unique(names: Iterable[str], path: Path) -> None:
    """Refuse a file in which a name stands twice."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise DataError(f"{path}: {name} appears twice.", "Remove one of the two.")
        seen.add(name)


def entry_field(entry: Any, key: str, kind: type, place: str) -> Any:
    """A field of an entry of a JSON file, which must be of a kind."""
    if not isinstance(entry, dict) or key not in entry:
        raise DataError(f"{place}: there is no `{key}`.", "Correct that entry, or get the file again.")
    if not isinstance(entry[key], kind) or (kind is int and isinstance(entry[key], bool)):
        raise DataError(
            f"{place}: `{key}` is {shown(entry[key])}, not {kind.__name__}.",
            "Correct that entry, or get the file again.",
        )
    return entry[key]
