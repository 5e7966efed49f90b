"""`soundwhere live`: a local page that shows where sounds come from as they happen."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Annotated

from soundwhere.terminal.options import FLAG, LocaliserOptions, parse

DESCRIPTION = """\
Open a page in the browser: it takes camera and microphone, or a file that it plays, and shows where each sound comes
from as it happens. Pictures and sound go to this program only, and are not kept; Ctrl-C stops it.

Examples:
  soundwhere live                         camera and microphone of this machine
  soundwhere live --model scav-tiny       the fastest model
  soundwhere live --host 0.0.0.0          for other machines, with the link that is printed (cameras need TLS there)
"""


@dataclass(frozen=True)
class Options(LocaliserOptions):
    """Open a page in the browser that shows where sounds come from as they happen."""

    fps: float = 10.0
    """Frames per second that the page sends, at most; those that cannot be kept up with are dropped."""
    host: str = "127.0.0.1"
    """Address to serve on; on any other than this machine's own, the page needs a link with a key."""
    port: int = 8767
    """Port to serve on."""
    browser: Annotated[bool, *FLAG] = True
    """Do not open the page in the browser."""


def run(arguments: list[str]) -> int:
    """Serve until Ctrl-C or SIGTERM."""
    options = parse(Options, arguments, "live", description=DESCRIPTION)
    from soundwhere.inference.localiser import Localiser
    from soundwhere.inference.settings import Settings
    from soundwhere.live.server import serve_live
    from soundwhere.terminal.messages import announce
    from soundwhere.web.addresses import LOOPBACK

    # complains now rather than when the model is loaded
    Settings(fps=options.fps, sources=options.localiser().get("sources"))
    key = "" if options.host in LOOPBACK else secrets.token_urlsafe(24)
    ready = announce("nothing is kept, Ctrl-C stops", options.host, options.browser)
    try:
        serve_live(lambda: Localiser(**options.localiser()), options.fps, options.host, options.port, key, ready)
    except KeyboardInterrupt:  # the server has stopped in good order by then
        print("stopped", flush=True)
    return 0
