"""`soundwhere analyse theory`: the appendix simulated."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from soundwhere.analysis.setting import Setting
from soundwhere.terminal.options import named

if TYPE_CHECKING:
    from soundwhere.analysis.report import Report


@dataclass(frozen=True)
class Options:
    """The appendix simulated: c1 and c2 over the steps, and which of its statements hold."""

    setting: Annotated[Setting, tyro.conf.arg(name="")] = Setting()  # noqa: RUF009 - frozen
    out: Annotated[Path | None, named("DIR")] = None
    """Folder for JSON, Markdown and figures, which need matplotlib; without it, tables are only printed."""


def run(options: Options) -> tuple[Report, dict[str, Any]]:
    """Run the analysis."""
    from soundwhere.analysis.appendix import theory_results

    return theory_results(options.setting), asdict(options.setting)
