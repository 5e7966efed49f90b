"""Write down how far our implementations are from the recorded numbers of the published ones, for docs/rivals*.md.

    SOUNDWHERE_AGREEMENT=agreement.tsv pytest tests/methods tests/media/test_front_ends.py
    python scripts/agreement.py agreement.tsv
    python scripts/fill_docs.py

The second line writes docs/figures/agreement.json and docs/figures/agreement-several.json, the third their tables.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any, Final

from soundwhere.files import write_json

FIGURES: Final = Path(__file__).parents[1] / "docs" / "figures"
COMMAND: Final = "SOUNDWHERE_AGREEMENT=agreement.tsv pytest tests/methods tests/media/test_front_ends.py"
SEVERAL: Final = ("avgn", "coarse_to_fine", "dsol", "jsa", "mix_and_localize", "noprior")
"""Recordings of the methods of docs/rivals-several.md."""
_CASES: Final = ("case0_", "case1_", "case2_", "solo_", "duet_", "s1_", "s2_")
"""Names of arrays that differ only in these beginnings belong to one line."""


def largest(lines: list[str]) -> list[dict[str, Any]]:
    """The largest difference of each kind of array, a row for each, from lines `recording TAB array TAB difference`."""
    worst: dict[str, dict[str, float]] = {}
    for line in lines:
        recording, array, error = line.split("\t")
        kind = next((array.removeprefix(case) for case in _CASES if array.startswith(case)), array)
        kinds = worst.setdefault(recording, {})
        kinds[kind] = max(kinds.get(kind, 0.0), float(error))
    return [
        {"recording": recording, "array": array, "difference": error}
        for recording, kinds in sorted(worst.items())
        for array, error in kinds.items()
    ]


def write(lines: list[str], folder: Path) -> None:
    """Write both files."""
    rows = largest(lines)
    for name, several in (("agreement", False), ("agreement-several", True)):
        chosen = [row for row in rows if (row["recording"] in SEVERAL) == several]
        write_json(folder / f"{name}.json", {"command": COMMAND, "rows": chosen})


def main() -> None:
    """Read the lines that the tests left."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lines", type=Path, help="the file that SOUNDWHERE_AGREEMENT named")
    path = parser.parse_args().lines
    if not path.is_file():
        sys.exit(f"There is no file {path}: make it with {COMMAND}")
    write(path.read_text(encoding="utf-8").splitlines(), FIGURES)


if __name__ == "__main__":
    main()
