"""The kinds of output, by name. Nothing here needs torch: the command line builds its help from it."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any, Final

from soundwhere.errors import ConfigError

# format: the file by which it is known
FILES: Final[dict[str, str]] = {
    "mp4": "overlay.mp4",  # the video at its own rate and size with the heatmaps on it, and its sound
    "png": "overlay.png",  # and heatmaps/: pictures at a few times, one heatmap per source
    "json": "result.json",  # everything but the maps, as `result_schema` describes it
    "csv": "result.csv",  # one line per time and source
    "npz": "result.npz",  # everything with the maps, as numpy arrays
    "coco": "coco.json",  # boxes and masks of the sources that sound in each analysed frame, for COCO's tools
    "html": "index.html",  # a page that shows all of it; last, for it shows what is there
}
DEFAULT_FORMATS: Final = ("mp4", "json", "html")
SCHEMA: Final = "soundwhere-result-1"  # of result.json


def parse_formats(text: str) -> tuple[str, ...]:
    """The formats of a comma-separated list, each once, in the order in which they are written.

    >>> parse_formats("json, csv,csv")
    ('json', 'csv')
    """
    names = [name.strip().lower() for name in text.split(",") if name.strip()]
    return check_formats(names)


def check_formats(names: list[str] | tuple[str, ...]) -> tuple[str, ...]:
    """The same formats, each once and in the order in which they are written, or an error for an unknown one."""
    unknown = [name for name in names if name not in FILES]
    if unknown or not names:
        found = f"There is no output format {unknown[0]!r}." if unknown else "No output format was given."
        raise ConfigError(found, f"Choose from: {','.join(FILES)}.")
    return tuple(name for name in FILES if name in names)


def result_schema() -> dict[str, Any]:
    """The JSON schema (draft 2020-12) of result.json, which is shipped with the package."""
    text = files("soundwhere.inference").joinpath("schema", "result-1.json").read_text(encoding="utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema
