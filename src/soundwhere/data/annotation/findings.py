"""What an annotation file holds and what was wrong with it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import compress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from soundwhere.data.annotation.boxes import Boxes

_EXAMPLES = 3


@dataclass(frozen=True)
class Defect:
    """Something wrong in a file.

    Attributes:
        what: What is wrong, after the number: `boxes are empty`.
        count: How often.
        repair: What was done about it.
        examples: Some entries it happened in.
    """

    what: str
    count: int
    repair: str
    examples: tuple[str, ...] = ()

    def __str__(self) -> str:
        shown = ", ".join(self.examples[:_EXAMPLES]) + (", ..." if self.count > _EXAMPLES else "")
        return f"{grouped(self.count)} {self.what}: {self.repair}" + (f" ({shown})" if self.examples else "")


@dataclass(frozen=True)
class Findings:
    """What was found in one annotation file.

    Attributes:
        source: The file, as its authors name it: `lvs/vggss.json`.
        counts: How many of what, in the order in which it is to be printed.
        defects: Those that occur; none with a count of 0.
    """

    source: str
    counts: dict[str, int]
    defects: tuple[Defect, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "defects", tuple(defect for defect in self.defects if defect.count))

    def __str__(self) -> str:
        counts = ", ".join(f"{grouped(count)} {noun}" for noun, count in self.counts.items())
        return "\n  ".join([f"{self.source}: {counts}", *map(str, self.defects)])


def box_defects(boxes: Sequence[Boxes], names: Sequence[str] = ()) -> tuple[Defect, Defect]:
    """What `repair_boxes` did, with some of the names of the entries, if they have any."""
    clipped, dropped = [each.clipped for each in boxes], [each.dropped for each in boxes]
    return (
        Defect("boxes reach beyond the picture", sum(clipped), "clipped to it", tuple(compress(names, clipped))),
        Defect("boxes are empty, clipped or not", sum(dropped), "dropped", tuple(compress(names, dropped))),
    )


def grouped(number: int) -> str:
    """A number as this project prints it.

    >>> grouped(5158)
    '5 158'
    """
    return f"{number:,}".replace(",", " ")
