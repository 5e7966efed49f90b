"""Rows of a table: who answers, and what was done to its senses."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal

Control = Literal["own", "shuffled", "silent", "blind", "absent", "alone", "lone", "nothing"]
"""What a method hears and sees: the scene as it is; with the sound of the scene half the list away; in digital silence;
with that scene's picture; with the sound of a scene that shares no class with the picture; with one of its own sounds
alone; with that sound and its frame alone in sight; with noise, or one sound of a scene that shares no class with the
picture."""

Kind = Literal["method", "training-free", "deaf", "blind", "image-only", "input-free", "negative", "solo"]
"""A method as it is meant to be used, a rival made of a part of it, or which kind of control. `negative` is only asked
how much it lights, and how surely; `solo` has a map for each source's sound alone, in the order of the truth, and is
only asked where its peak lies."""

FEATURE_NORM: Final = "feature norm"
"""The answer of a network's eye alone."""

_WORDS: Final[dict[Control, str]] = {
    "own": "",
    "shuffled": "audio-shuffled",
    "silent": "silence",
    "blind": "picture-shuffled",
    "absent": "absent sound",
    "alone": "one sound alone",
    "lone": "one frame alone",
    "nothing": "sound of nothing seen",
}
KINDS: Final[dict[Control, Kind]] = {
    "own": "method",
    "shuffled": "deaf",
    "silent": "deaf",
    "blind": "blind",
    "absent": "negative",
    "alone": "negative",
    "lone": "negative",
    "nothing": "negative",
}
"""What a method is under each control."""


@dataclass(frozen=True)
class Row:
    """A line of a table; its text is what tables and files call it.

    Attributes:
        method: Label of the method; empty for answers without input.
        control: What was done to its senses.
        answer: Which of a method's answers, if not its own maps.

    >>> str(Row("mine")), str(Row("mine", "shuffled")), str(Row("mine", "shuffled", "peel"))
    ('mine', 'mine, audio-shuffled', 'mine, peel, audio-shuffled')
    """

    method: str = ""
    control: Control = "own"
    answer: str = ""

    def __str__(self) -> str:
        return ", ".join(part for part in (self.method, self.answer, _WORDS[self.control]) if part)

    def under(self, control: Control) -> Row:
        """The same answer under another control."""
        return replace(self, control=control)
