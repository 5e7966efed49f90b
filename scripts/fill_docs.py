"""Put figures into the pages: `python scripts/fill_docs.py`, from files of docs/figures/ that commands wrote.

Between `<!-- figures: NAME -->` and `<!-- end -->` stands the table NAME of docs/figures/tables.toml; between
`<!-- figure: FILE SECTION FIGURE ROW -->` and `<!-- end -->` one figure of FILE.json, which `soundwhere evaluate` (or a
benchmark of `soundwhere analyse compare`) wrote as results.json, or another analysis under its own name; between
`<!-- value: FILE PLACE FORM -->` and `<!-- end -->` a number of FILE.json in that form. To renew a table, copy that
file there and run this. What no file has yet stays as it is, and is told; tests/test_docs_figures.py knows what may
be missing.
"""

from __future__ import annotations

import argparse
import re
import sys
import tomllib
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from soundwhere.bench.scale import Rates, fill_page
from soundwhere.cli.main import COMMANDS
from soundwhere.files import parse_json

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).parents[1]
_TABLE = re.compile(r"(<!-- figures: ([\w-]+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)
_FIGURE = re.compile(r"(<!-- figure: (\S+) (\S+) (\S+) ([^>]+?) -->)(.*?)(<!-- end -->)")
_VALUE = re.compile(r"(<!-- value: (\S+) ([^>]+?) (\S+) -->)(.*?)(<!-- end -->)")
_VERDICTS = {True: "holds", False: "does not hold"}


class Figures:
    """What docs/figures/ holds, and what was asked of it in vain (`missing`)."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.plan: dict[str, Any] = tomllib.loads((folder / "tables.toml").read_text(encoding="utf-8"))
        self.missing: set[str] = set()
        self._files: dict[str, dict[str, Any]] = {}

    @cached_property
    def rates(self) -> Rates:
        """What `soundwhere bench prepare` and `bench feed` measured."""
        return Rates.read(self.folder)

    def find(self, file: str, section: str, figure: str, row: str) -> str | None:
        """A figure in percent, with its interval if it has one; none if there is no such file or row in it yet."""
        value = self._place(file, [*section.split("/"), row, *(figure.split("/") if figure.strip("-") else [])], row)
        if value is None:
            return None
        if not isinstance(value, dict):
            return f"{100 * value:.1f}"
        value, low, high = (100 * value[key] for key in ("value", "low", "high"))
        return f"{value:.1f} ({low:.1f} to {high:.1f})"

    def value(self, file: str, place: str, form: str) -> str | None:
        """A number in the form wanted; none if there is no such file or place in it yet."""
        found = self._place(file, place.split("/"), place)
        return None if found is None else format(found, form)

    def _place(self, file: str, keys: Sequence[str], name: str) -> Any:
        """What stands in a file; none, and its name is noted, if there is no such file or place in it yet."""
        if file not in self._files:
            path = self.folder / f"{file}.json"
            self._files[file] = parse_json(path.read_bytes()) if path.is_file() else {}
        found = _inside(self._files[file], keys, file)
        if found is None:
            self.missing.add(f"{file}: {name}")
        return found

    def table(self, name: str, present: str) -> str:
        """A table of the plan; cells that nothing is known of yet keep what is there."""
        plan = self.plan["tables"][name]
        if "file" in plan:
            return self._listed(plan) or present.rstrip("\n")
        before = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in present.splitlines()[2:]]
        lines = [_row([plan.get("head", "answer"), *(column[0] for column in plan["columns"])])]
        lines += ["|---|" + "---:|" * len(plan["columns"])]
        for number, (label, row, *own) in enumerate(plan["rows"]):
            old = before[number] if number < len(before) and before[number][0] == label else []
            cells = [label]
            for place, (_, file, section, figure) in enumerate(plan["columns"], 1):
                known = self.find(file, section, own[0] if own else figure, row)
                cells.append(known or (old[place] if place < len(old) else "-"))
            lines.append(_row(cells))
        return "\n".join(lines)

    def _listed(self, plan: dict[str, Any]) -> str | None:
        """A table whose rows are those of a file; none if there is no such file yet."""
        rows = self._place(plan["file"], plan.get("at", "rows").split("/"), "all rows")
        if rows is None:
            return None
        if isinstance(rows, dict):
            rows = [{"name": name, "value": value} for name, value in rows.items()]
        columns = plan["columns"]
        words = plan.get("words", 0 if columns[0][2] else 1)  # how many columns hold no figures
        lines = [_row([column[0] for column in columns]), "|" + "---|" * words + "---:|" * (len(columns) - words)]
        for row in rows:
            lines.append(_row([_cell(_inside(row, key.split("/"), plan["file"]), form) for _, key, form in columns]))
        return "\n".join(lines)


def _inside(found: Any, keys: Sequence[str], file: str) -> Any:
    """What stands at a place, of whose names * stands for anything; none if nothing does."""
    for key in keys:
        if isinstance(found, list):
            found = {str(number): each for number, each in enumerate(found)}
        named = [name for name in found if fnmatchcase(name, key)]
        if not named:
            return None
        if len(named) > 1:
            raise ValueError(f"{file}.json has several rows {key!r}: {named}")
        found = found[named[0]]
    return found


def _cell(value: Any, form: str) -> str:
    return _VERDICTS[value] if isinstance(value, bool) else format(value, form).replace("|", r"\|")


def fill(text: str, figures: Figures) -> str:
    """A page with everything known put in."""

    def table(found: re.Match[str]) -> str:
        if found[2] not in {"commands", *figures.plan["tables"]}:  # those of docs/scale.md have formulas of their own
            return fill_page(found[0], figures.rates)
        made = _commands() if found[2] == "commands" else figures.table(found[2], found[3])
        return f"{found[1]}{made}\n{found[4]}"

    def figure(found: re.Match[str]) -> str:
        return f"{found[1]}{figures.find(found[2], found[3], found[4], found[5]) or found[6]}{found[7]}"

    def value(found: re.Match[str]) -> str:
        return f"{found[1]}{figures.value(found[2], found[3], found[4]) or found[5]}{found[6]}"

    return _VALUE.sub(value, _FIGURE.sub(figure, _TABLE.sub(table, text)))


def pages(root: Path = ROOT) -> list[Path]:
    """Every page that may have figures."""
    return [root / "README.md", root / "MODEL_CARD.md", *sorted((root / "docs").glob("*.md"))]


def _commands() -> str:
    rows = [_row([f"`soundwhere {name}`", what]) for name, what in COMMANDS.items()]
    return "\n".join([_row(["command", "what it does"]), "|---|---|", *rows])


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Fill the pages in place; with --check, only say whether that would change any."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing; exit with 1 if a page is out of date")
    options = parser.parse_args()
    figures = Figures(ROOT / "docs" / "figures")
    stale = []
    for path in pages():
        text = path.read_text(encoding="utf-8")
        filled = fill(text, figures)
        if filled != text:
            stale.append(path)
            if not options.check:
                path.write_text(filled, encoding="utf-8")
            print(f"{'out of date' if options.check else 'filled'}: {path.relative_to(ROOT)}")
    for name in sorted(figures.missing):
        print(f"no file for {name}")
    sys.exit(1 if options.check and stale else 0)


if __name__ == "__main__":
    main()
