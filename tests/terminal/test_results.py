"""What a user reads of each source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from soundwhere.config import MethodConfig
from soundwhere.inference.settings import Settings
from soundwhere.terminal.results import print_sources

if TYPE_CHECKING:
    import pytest


@dataclass(frozen=True)
class Heard:
    """A result of three sources, as far as it is told."""

    sources: int = 3
    settings: Settings = Settings()  # noqa: RUF009 - frozen
    model: MethodConfig = MethodConfig(name="mine")  # noqa: RUF009 - frozen

    def colour(self, source: int) -> tuple[str, tuple[int, int, int]]:
        return ("orange", "blue", "green")[source], (1, 2, 3)

    def spans(self, source: int) -> list[tuple[float, float]]:
        return [[(0.2, 0.4), (1.0, 30.6)], [], [(float(start), start + 0.5) for start in range(5)]][source]

    def where(self, source: int) -> str:
        return "left"


class Counting(MethodConfig):
    counts = True


def test_where_nothing_was_heard_it_says_what_shows_the_maps(capsys: pytest.CaptureFixture[str]) -> None:
    for kind, flags in (
        (Counting, "--sources 2 --formats png --overwrite"),
        (MethodConfig, "--formats png --overwrite"),
    ):
        heard = Heard(sources=1, model=kind(name="mine"))
        object.__setattr__(heard, "spans", lambda _: [])
        print_sources(heard)  # type: ignore[arg-type]
        assert capsys.readouterr().out.splitlines() == [
            "  source 1  ■ orange   not heard",
            f"  nothing that is seen was heard well enough; to see its maps: {flags}",
        ]


def test_spans_shorter_than_a_second_can_be_read(capsys: pytest.CaptureFixture[str]) -> None:
    print_sources(Heard())  # type: ignore[arg-type]
    assert capsys.readouterr().out.splitlines() == [
        "  source 1  ■ orange   sounding 0:00.2-0:00.4, 0:01-0:31   mostly at left",
        "  source 2  ■ blue     not heard",
        "  source 3  ■ green    sounding 0:00.0-0:00.5, 0:01.0-0:01.5, 0:02.0-0:02.5 and 2 more times   mostly at left",
        "  mine does not count: all 3 of its sources are shown",
    ]


def test_one_further_span_is_said_as_such(capsys: pytest.CaptureFixture[str]) -> None:
    heard = Heard(sources=1)
    object.__setattr__(heard, "spans", lambda _: [(2.0 * start, 2.0 * start + 1) for start in range(4)])
    print_sources(heard)  # type: ignore[arg-type]
    assert "0:04.0-0:05.0 and once more   mostly" in capsys.readouterr().out
