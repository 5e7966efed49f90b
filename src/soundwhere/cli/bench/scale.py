"""`soundwhere bench scale`: the tables of docs/scale.md."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Options:
    """Put what `bench prepare` and `bench feed` measured into the tables of docs/scale.md."""

    figures: Path = Path("docs/figures")
    """Folder with prepare.json and feed.json."""
    page: Path = Path("docs/scale.md")
    """The page whose marked blocks are filled."""


def run(options: Options) -> None:
    """Run the measurement."""
    from soundwhere.bench.scale import Rates, fill_page
    from soundwhere.errors import DataError, reason
    from soundwhere.files import write_text

    rates = Rates.read(options.figures)
    try:
        text = options.page.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{options.page} cannot be read: {reason(error)}.", "Give it with --page.") from error
    write_text(options.page, fill_page(text, rates))
    print(f"wrote {options.page}")
