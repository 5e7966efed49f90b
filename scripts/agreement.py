"""Print how far our implementations are from the recorded numbers of the published ones, as a Markdown table.

SOUNDWHERE_AGREEMENT=agreement.tsv pytest tests/methods tests/media/test_front_ends.py
python scripts/agreement.py agreement.tsv
"""

from __future__ import annotations

import sys
from pathlib import Path

# Names of arrays that differ only in these beginnings belong to one line
_CASES = ("case0_", "case1_", "case2_", "solo_", "duet_", "s1_", "s2_")


def main(path: Path) -> None:
    """Gather the largest difference of each array and print one line for each kind of array."""
    worst: dict[str, dict[str, float]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        method, array, error = line.split("\t")
        kind = next((array.removeprefix(case) for case in _CASES if array.startswith(case)), array)
        kinds = worst.setdefault(method, {})
        kinds[kind] = max(kinds.get(kind, 0.0), float(error))
    print("| recording | array | largest difference, relative |\n|---|---|---|")
    for method, kinds in sorted(worst.items()):
        for array, error in kinds.items():
            print(f"| {method} | {array} | {error:.0e} |")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
