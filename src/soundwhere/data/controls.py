"""Which other scene misleads about a scene: one half the list away, or one that shares no class with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def partner(index: int, count: int) -> int:
    """The scene half the list away, whose sound or picture stands in for a scene's own.

    Every scene has another one for a partner, and is the partner of one.
    """
    return (index + max(1, count // 2)) % count


def absent_partners(kinds: Sequence[frozenset[str]]) -> list[int | None]:
    """For each scene another one with no class in common, looked for from half the list away.

    Args:
        kinds: Classes seen in each scene, sounding or silent; empty if unknown.

    Returns:
        None where the classes are unknown or no scene fits.

    Example:
        >>> absent_partners([frozenset("ab"), frozenset("bc"), frozenset("cd"), frozenset()])
        [2, None, 0, None]
    """
    count = len(kinds)
    partners: list[int | None] = []
    for index, own in enumerate(kinds):
        others = ((partner(index, count) + step) % count for step in range(count))
        partners.append(next((j for j in others if own and kinds[j] and not own & kinds[j]), None))
    return partners
