"""What commands that measure share: a file for their figures, and what is too little or too long to measure."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final

import tyro

from soundwhere.errors import ConfigError

LONGEST_S: Final = 3600
"""Of a clip that is made to measure with."""

FiguresFile = Annotated[
    Path | None,
    tyro.conf.arg(
        metavar="FILE", help="Write the figures there too, such as docs/figures/NAME.json.", help_behavior_hint=""
    ),
]
"""An option that may be left out: where figures are written down."""


def check_scenes(count: int) -> None:
    """Refuse to measure on no scenes."""
    if count < 1:
        raise ConfigError(f"--scenes is {count}.", "Give 1 or more.")


def keep_figures(path: FiguresFile, command: str, figures: dict[str, Any]) -> None:
    """Write figures down with the command that measured them, if that is wanted."""
    if path is not None:
        from soundwhere.files import write_json

        write_json(path, {"command": f"soundwhere bench {command}", **figures})
