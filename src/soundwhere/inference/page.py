"""The page: one HTML file that plays the clip with its heatmaps, without a server or anything from the net.

A short clip is within the page, which can then be sent on as one file; a longer one lies beside it.
"""

from __future__ import annotations

import json
import shutil
from base64 import b64encode
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

from soundwhere.files import write_text
from soundwhere.inference.browser_video import browser_video
from soundwhere.inference.folder import list_files
from soundwhere.inference.player import player_data

if TYPE_CHECKING:
    from soundwhere.inference.browser_video import BrowserVideo
    from soundwhere.inference.result import Result

SCRIPTS: Final = ("heat.js", "timeline.js", "controls.js", "player.js")  # in this order
MOST_BYTES: Final = 12 << 20  # of a video within the page
_TYPES: Final = {".webm": "video/webm"}


def write_page(result: Result, folder: Path) -> None:
    """Write `index.html` for the outputs that are in the folder already, and `plain.mp4` if the clip is long."""
    with TemporaryDirectory(dir=folder, prefix=".plain.") as temporary:
        put_page(player_data(result), browser_video(result.footage, Path(temporary)), folder)


def put_page(data: dict[str, Any], plain: BrowserVideo, folder: Path) -> None:
    """As `write_page`, for data and a video that are there.

    Args:
        data: What `player_data` gives.
        plain: The clip as browsers play it.
        folder: Where the other outputs are.
    """
    suffix = plain.path.suffix.lower()
    video: dict[str, Any] = {"type": _TYPES.get(suffix, "video/mp4"), "start_s": round(plain.start_s, 3)}
    if plain.path.stat().st_size <= MOST_BYTES:
        video["base64"] = b64encode(plain.path.read_bytes()).decode("ascii")
    else:
        video["src"] = f"plain{suffix}"
        shutil.copyfile(plain.path, folder / video["src"])
    write_text(folder / "index.html", page({**data, "video": video, "files": list_files(folder)}))


def page(data: dict[str, Any]) -> str:
    """The page around the player's data, which it carries with it."""
    source = files("soundwhere.inference") / "web"
    text = {name: (source / name).read_text(encoding="utf-8") for name in ("page.html", "player.css", *SCRIPTS)}
    return Template(text["page.html"]).substitute(
        title=escape(data["title"]),
        version=escape(data["version"]),
        facts=escape(data["facts"]),
        links="".join(f'<li><a href="{file["href"]}">{escape(file["name"])}</a></li>' for file in data["files"]),
        style=text["player.css"],
        data=_as_script(data),
        script="\n".join(text[name] for name in SCRIPTS),
    )


def _as_script(data: dict[str, Any]) -> str:
    """JSON that may stand between script tags, whatever it says."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
