"""The one page: it grows part by part, and says what could not be done."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from soundwhere.errors import SoundwhereError
from soundwhere.evaluation.page import Section, write_page
from soundwhere.files import write_json
from soundwhere.reproduction.claims import as_values, claims_table, statements_table, tally

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from matplotlib.figure import Figure

    from soundwhere.analysis.report import Report
    from soundwhere.metrics.report import Table
    from soundwhere.reproduction.claims import Claim, Statement
    from soundwhere.types import Image


@dataclass
class Page:
    """What was found so far.

    Attributes:
        out: Folder of everything; the page is `index.html` in it.
        facts: What all of it depends on, by name.
        problems: What could not be done, with the reason.
        claims: Of the tables.
        statements: Of the appendix.
        sections: In their order.
    """

    out: Path
    facts: Mapping[str, str]
    problems: dict[str, str] = field(default_factory=dict)
    claims: list[Claim] = field(default_factory=list)
    statements: list[Statement] = field(default_factory=list)
    sections: list[Section] = field(default_factory=list)

    def run(self, parts: Mapping[str, Callable[[], None]], say: Callable[[str], None]) -> None:
        """Run parts one after the other; one that fails is reported, and the others go on.

        Args:
            parts: What to do, by name.
            say: Told what the user has to know.
        """
        for name, part in parts.items():
            say(f"\n== {name}")
            try:
                part()
            except SoundwhereError as error:
                self.problems[name] = error.message
                say(f"{name} could not be done: {error.message} {error.remedy}")
            self.write()

    def add(
        self, name: str, title: str, report: Report, settings: dict[str, Any], first: list[Table] | None = None
    ) -> list[Path]:
        """Put an analysis on the page, and write its own files into its folder, which are returned.

        Args:
            name: Of the analysis and its folder.
            title: Of its section.
            report: What it found.
            settings: What its numbers depend on.
            first: Tables that stand before its own.
        """
        pictures: dict[str, Image | Figure] = {
            **{each.replace("-", " ").capitalize(): figure for each, figure in report.drawn.items()},
            **report.pictures,
        }
        self.sections.append(Section(title, report.words, [*(first or []), *report.tables], pictures))
        return report.write(self.out / name, name, settings)

    def verdicts(self) -> dict[str, str]:
        """How many claims have each verdict, in words: of the tables, and of the appendix, which needs no data."""
        judged: dict[str, Sequence[Claim | Statement]] = {"The tables:": self.claims, "The appendix:": self.statements}
        return {of_what: tally(each) for of_what, each in judged.items() if each}

    def write(self) -> None:
        """Write the page and `claims.json` as they are now."""
        missing = "; ".join(f"{part}: {why}" for part, why in self.problems.items())
        facts = {**self.facts, "not done": missing or "-"}
        tables = [claims_table(self.claims)] if self.claims else []
        tables += [statements_table(self.statements)] if self.statements else []
        first = Section("Verdicts", self.verdicts() or {"": tally([])}, tables)
        write_json(self.out / "claims.json", {"settings": facts, **as_values(self.claims, self.statements)})
        write_page(self.out / "index.html", "The paper, reproduced", facts, [first, *self.sections])
