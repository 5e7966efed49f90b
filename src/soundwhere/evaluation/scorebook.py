"""What has been scored so far: a line of scalars for each scene, so that a run that was killed goes on."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

from soundwhere import distributed
from soundwhere.errors import OutputError
from soundwhere.files import make_folder, output_error, parse_json

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA: Final = 2
"""Of the lines; another number stands in the first line of files that other versions wrote."""


class Scorebook:
    """Lines appended to a file that is named by a hash of the settings; a line that a kill cut short is dropped.

    A line is `[scene, value, check]`, the last being a checksum of the others: what people or other programs write is
    not taken for scores.

    Of several processes, which all make and fill the same books, the main one keeps the file; all know what it holds.

    Args:
        folder: Where it is kept; nowhere but in memory if None.
        settings: Everything the scores depend on, as JSON values; they are the file's first line.

    Raises:
        OutputError: The file holds a line that was not written here, or cannot be written.
    """

    def __init__(self, folder: Path | None, settings: dict[str, Any]) -> None:
        self._lines: dict[str, Any] = {}
        self.path: Path | None = None
        if folder is not None and distributed.is_main():
            self._open(folder, settings)
        self._lines = distributed.from_main(self._lines)

    def _open(self, folder: Path, settings: dict[str, Any]) -> None:
        first = json.dumps({"settings": {"schema": SCHEMA, **settings}}, sort_keys=True).encode() + b"\n"
        self.path = folder / f"{hashlib.sha256(first).hexdigest()[:16]}.jsonl"
        try:
            kept = self._read(self.path, first) if self.path.is_file() else 0
            make_folder(folder)
            with self.path.open("ab") as file:
                file.truncate(kept)
                if not kept:
                    file.write(first)
        except OSError as error:
            raise output_error(self.path, error) from error

    def __contains__(self, scene: str) -> bool:
        return scene in self._lines

    def __getitem__(self, scene: str) -> Any:
        return self._lines[scene]

    def add(self, lines: dict[str, Any]) -> None:
        """Write down what is known of scenes, by name; those that are there already are left alone."""
        new = {scene: value for scene, value in lines.items() if scene not in self._lines}
        if self.path is not None:
            try:
                with self.path.open("ab") as file:
                    file.write(b"".join(_line(scene, value) for scene, value in new.items()))
            except OSError as error:
                raise output_error(self.path, error) from error
        self._lines.update(new)

    def _read(self, path: Path, first: bytes) -> int:
        """Read the lines and say how many bytes are whole."""
        kept = 0
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if not line.endswith(b"\n"):
                    break
                scene, value = _parse(line) if number > 1 else ("", None)
                if line != (_line(scene, value) if number > 1 else first):
                    raise OutputError(
                        f"{path}, line {number} does not hold the scores of a scene.",
                        "Remove that file: its scenes are scored again.",
                    )
                if number > 1:
                    self._lines[scene] = value
                kept += len(line)
        return kept


def outdated(folder: Path) -> list[Path]:
    """The files in a folder of scores that another version wrote, which nobody reads."""
    return [path for path in sorted(folder.glob("*.jsonl")) if not _is_current(path)]


def _is_current(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            settings = parse_json(file.readline())["settings"]
        return bool(settings["schema"] == SCHEMA)
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _line(scene: str, value: Any) -> bytes:
    text = json.dumps([scene, value], allow_nan=False)
    return f"{text[:-1]}, {crc32(text.encode())}]\n".encode()


def _parse(line: bytes) -> tuple[str, Any]:
    try:
        scene, value, _ = parse_json(line)
    except (TypeError, ValueError):
        return "", None
    return scene, value
