"""Recordings by collection, and trios that sound like a collection left out of training.

Whoever learns from two collections of dog barks may have learnt how each was recorded. Nine classes of wide-duet have
sounds from two collections: a model that trained without one of them is scored on that one.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from soundwhere.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Fold = Literal["first", "second"]

COLLECTIONS: Final[dict[str, tuple[str, str]]] = {
    **dict.fromkeys(("car", "dog", "motorbike"), ("esc50", "us8k")),
    "chicken": ("esc50", "yn"),
    **dict.fromkeys(("tambourine", "trumpet", "tuba", "violin", "xylophone"), ("notes", "gm")),
}
"""The two collections of each class that has two, by the beginning of a sound's file name."""

_ALIKE: Final = frozenset({"car", "motorbike"})  # engines: nobody could tell which of the two it is
_SEED: Final = 7


def collection(audio: str) -> str:
    """The collection that a sound comes from.

    >>> collection("audio/dog/esc50_1-30226-A-0.ogg")
    'esc50'
    """
    return Path(audio).name.split("_")[0]


def is_left_out(kind: str, audio: str, fold: Fold) -> bool:
    """Whether a sound belongs to the collection that a fold leaves out of training.

    >>> is_left_out("dog", "audio/dog/us8k_344-3-1-0.ogg", "second"), is_left_out("cat", "esc50_1.ogg", "first")
    (True, False)
    """
    return kind in COLLECTIONS and collection(audio) == COLLECTIONS[kind][("first", "second").index(fold)]


def pair_again(pairs: Sequence[tuple[str, str, str]], fold: Fold) -> list[tuple[str, str]]:
    """Pictures and sounds to train on without a collection: no picture is lost, left-out sounds are replaced in turn.

    Args:
        pairs: Class, picture and sound of every clip.
        fold: Which collections are left out.

    Returns:
        Picture and sound of every clip, in the same order.

    Raises:
        DataError: A class has no other sound.
    """
    kept: dict[str, list[str]] = {}
    for kind, _, audio in pairs:
        if not is_left_out(kind, audio, fold) and audio not in kept.setdefault(kind, []):
            kept[kind].append(audio)
    turn = dict.fromkeys(kept, 0)
    again = []
    for kind, image, audio in pairs:
        if is_left_out(kind, audio, fold):
            if not kept.get(kind):
                raise DataError(
                    f"All sounds of the class {kind} are of the collection left out.",
                    "Train on wide-duet, which has two collections of it.",
                )
            audio = kept[kind][turn[kind] % len(kept[kind])]
            turn[kind] += 1
        again.append((image, audio))
    return again


def draw_trios(
    photos: dict[str, list[str]], sounds: Iterable[tuple[str, str]], fold: Fold, count: int
) -> list[tuple[list[str], list[str], list[str]]]:
    """Trios in which two classes sound, both as in the collection left out, beside a silent third class.

    Args:
        photos: By class, those with a mask.
        sounds: Class and file of every recording.
        fold: Which collections were left out of training.
        count: How many.

    Returns:
        Pictures, classes and sounds (empty for the silent one) of each trio, in their order; the same for one seed.

    Raises:
        DataError: Fewer than two classes have photos and sounds.
    """
    rng = np.random.default_rng([_SEED, ("first", "second").index(fold)])
    heard: dict[str, list[str]] = {}
    for kind, audio in sounds:
        if is_left_out(kind, audio, fold):
            heard.setdefault(kind, []).append(audio)
    kinds = sorted(kind for kind in heard if photos.get(kind))
    if len(kinds) < 2:
        raise DataError(
            f"{len(kinds)} classes have photos and sounds of two collections.", "Give the folder of wide-duet."
        )
    trios: list[tuple[list[str], list[str], list[str]]] = []
    while len(trios) < count:
        cast = [*rng.choice(kinds, 2, replace=False), rng.choice(sorted(photos))]
        if len(set(cast)) < len(cast) or set(cast) >= _ALIKE:
            continue
        images = [str(rng.choice(photos[kind])) for kind in cast]
        audios = [*(str(rng.choice(heard[kind])) for kind in cast[:2]), ""]
        order = rng.permutation(len(cast))
        images, cast, audios = ([str(values[place]) for place in order] for values in (images, cast, audios))
        trios.append((images, cast, audios))
    return trios
