"""What has been scored so far: a line of scalars for each scene, so that a run that was killed goes on."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, Final

from soundwhere.errors import OutputError
from soundwhere.files import make_folder, output_error, parse_json

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SCHEMA: Final = 2
"""Of the lines; another number stands in the first line of files that other versions wrote."""


class Scorebook:
    """Lines appended to a file that is named by a hash of the settings; a line that a kill cut short is dropped.

    Args:
        folder: Where it is kept; nowhere but in memory if None.
        settings: Everything the scores depend on, as JSON values; they are the file's first line.
        fits: Whether a value can be what is known of a scene.

    Raises:
        OutputError: The file holds a line that was not written here, or cannot be written.
    """

    def __init__(self, folder: Path | None, settings: dict[str, Any], fits: Callable[[Any], bool]) -> None:
        self._lines: dict[str, Any] = {}
        self.path: Path | None = None
        if folder is None:
            return
        first = json.dumps({"settings": {"schema": SCHEMA, **settings}}, sort_keys=True)
        self.path = folder / f"{hashlib.sha256(first.encode()).hexdigest()[:16]}.jsonl"
        try:
            kept = self._read(self.path, first, fits) if self.path.is_file() else 0
            make_folder(folder)
            with self.path.open("ab") as file:
                file.truncate(kept)
                if not kept:
                    file.write(first.encode() + b"\n")
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
            text = "".join(json.dumps([scene, value], allow_nan=False) + "\n" for scene, value in new.items())
            try:
                with self.path.open("ab") as file:
                    file.write(text.encode())
            except OSError as error:
                raise output_error(self.path, error) from error
        self._lines.update(new)

    def _read(self, path: Path, first: str, fits: Callable[[Any], bool]) -> int:
        """Read the lines and say how many bytes are whole."""
        kept = 0
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if not line.endswith(b"\n"):
                    break
                if number == 1:
                    known = line == first.encode() + b"\n"
                else:
                    scene, value = _parse(line)
                    known = isinstance(scene, str) and fits(value)
                    self._lines[scene] = value
                if not known:
                    raise OutputError(
                        f"{path}, line {number} does not hold the scores of a scene.",
                        "Remove that file: its scenes are scored again.",
                    )
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


def _parse(line: bytes) -> tuple[Any, Any]:
    try:
        scene, value = parse_json(line)
    except (TypeError, ValueError):
        return None, None
    return (scene, value) if isinstance(scene, str) else (None, None)
