"""`soundwhere serve`: a local page for your own clips."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from soundwhere.errors import ConfigError, reason
from soundwhere.files import atomic_path
from soundwhere.terminal.options import FLAG, LocaliserOptions, named, parse

DESCRIPTION = """\
Open a page in the browser: drop a clip, watch its progress, then play it with its heat. Results stay in the work
folder; stop with Ctrl-C and start again whenever you like.

Examples:
  soundwhere serve                        drop clips onto the page
  soundwhere serve films/                 ... or pick them from a folder
  soundwhere serve --host 0.0.0.0         for other machines, with the link that is printed
"""


@dataclass(frozen=True)
class Options(LocaliserOptions):
    """Open a page in the browser that localises the sounds of your clips."""

    folder: Annotated[Path | None, tyro.conf.Positional, named("[FOLDER]")] = None
    """Folder with clips to pick from."""
    work: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("clips.soundwhere")
    """Folder for uploads and results."""
    limit_mb: int = 2000
    """Size of the largest upload in megabytes."""
    host: str = "127.0.0.1"
    """Address to serve on; on any other than this machine's own, the page needs a link with a key."""
    port: int = 8766
    """Port to serve on."""
    browser: Annotated[bool, *FLAG] = True
    """Do not open the page in the browser."""


def run(arguments: list[str]) -> int:
    """Serve until Ctrl-C or SIGTERM."""
    options = parse(Options, arguments, "serve", description=DESCRIPTION)
    if options.folder is not None and not options.folder.is_dir():
        raise ConfigError(f"{options.folder} is not a folder.", "Give a folder with clips, or none.")
    if options.limit_mb < 1:
        raise ConfigError(f"{options.limit_mb} MB is not a valid limit for uploads.", "Give --limit-mb 1 or more.")
    from soundwhere.inference.settings import Settings
    from soundwhere.serve.jobs import Jobs, Shelf
    from soundwhere.serve.server import serve
    from soundwhere.terminal.messages import announce
    from soundwhere.web.addresses import LOOPBACK

    # complains now rather than with the first clip
    Settings(fps=options.fps, sources=options.localiser().get("sources"))
    key = "" if options.host in LOOPBACK else _key(options.work)
    ready = announce(f"results in {options.work}, Ctrl-C stops", options.host, options.browser)
    try:
        serve(
            Jobs(options.work / "jobs"),
            None if options.folder is None else Shelf(options.folder),
            options.localiser(),
            options.host,
            options.port,
            options.limit_mb * 1_000_000,
            key,
            ready,
        )
    except KeyboardInterrupt:  # the server has stopped in good order by then
        print("stopped; clips that are waiting will be localised after the next start", flush=True)
    return 0


def _key(work: Path) -> str:
    """The key of a work folder, made when it is first needed, so that links outlive the server."""
    path = work / "key"
    try:
        key = path.read_text(encoding="ascii").strip() if path.exists() else ""
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {reason(error)}.", "Remove it, or choose another --work.") from error
    if not key:
        key = secrets.token_urlsafe(24)
        with atomic_path(path) as temporary:
            temporary.touch(mode=0o600)  # before anything is in it
            temporary.write_text(key, encoding="ascii")
    return key
