"""What misleads about a scene: the scene half the list away, one that shares no class with it, or noise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from soundwhere.constants import MIXING_RMS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from soundwhere.types import Waveform

Nothing = Literal["absent", "white", "pink"]
"""What is heard of nothing that is seen: a sound of a class that is not in the picture, or noise."""


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


def nothing_for(index: int) -> Nothing:
    """What scene `index` hears of nothing it shows; one scene in three hears noise.

    >>> list(map(nothing_for, range(6)))
    ['white', 'absent', 'absent', 'pink', 'absent', 'absent']
    """
    if index % 3:
        return "absent"
    return "pink" if index % 2 else "white"


def noise(kind: Literal["white", "pink"], samples: int, seed: int) -> Waveform:
    """Noise at RMS 0.1, shape (N,), float32: as strong at every frequency, or falling by 3 dB an octave."""
    spectrum = np.fft.rfft(np.random.default_rng(seed).standard_normal(samples))
    if kind == "pink":
        spectrum /= np.sqrt(np.maximum(np.arange(len(spectrum)), 1))
    wave = np.fft.irfft(spectrum, samples)
    scaled: Waveform = (wave * (MIXING_RMS / np.sqrt(np.mean(wave**2)))).astype(np.float32)
    return scaled
