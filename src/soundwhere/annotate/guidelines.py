"""What annotators are told, as named sets."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Final


@dataclass(frozen=True)
class Guideline:
    """One rule.

    Attributes:
        title: In a word or two.
        text: What to do.
        words: Class names with one of these words make the page point this rule out; none for rules that always hold.
    """

    title: str
    text: str
    words: tuple[str, ...] = ()


_INSTRUMENTS: Final = (
    "playing", "accordion", "banjo", "bass", "bassoon", "bell", "bugle", "cello", "clarinet", "cornet", "cymbal",
    "drum", "flute", "guitar", "harmonica", "harp", "marimba", "oboe", "organ", "piano", "saxophone", "sitar",
    "trombone", "trumpet", "tuba", "ukulele", "violin", "xylophone", "zither",
)  # fmt: skip
_INTERACTIONS: Final = (
    "saw", "sawing", "chopping", "hammering", "striking", "bowling", "typing", "ripping", "splitting", "sharpening",
    "slot", "cutting", "hitting", "basketball", "tennis", "golf", "skate", "skateboarding", "tapping", "filing",
)  # fmt: skip

_SETS: Final = {
    "paper": (
        Guideline("Sounding things only", "Mark what makes the sound you hear, and nothing else in the box."),
        Guideline("Instruments", "The instrument alone: neither the player nor their hands.", _INSTRUMENTS),
        Guideline(
            "Interactions",
            "All parts that take part in the sound, but only within the box: the saw and the part of the tree "
            "that it cuts.",
            _INTERACTIONS,
        ),
    ),
    "open": (
        Guideline("Every source", "Mark every thing that may be making the sound, each as an object of its own."),
        Guideline("Boxes may be wrong", "Use a box as a hint only; click what you see where it does not fit."),
        Guideline("Instruments", "The instrument alone: neither the player nor their hands.", _INSTRUMENTS),
    ),
}

GUIDELINES: Final[dict[str, list[dict[str, Any]]]] = {
    name: [asdict(guideline) for guideline in guidelines] for name, guidelines in _SETS.items()
}
"""The sets `paper` and `open`, as the page reads them."""
