"""Lists of pairs, from which duets are made: two clips side by side, their sounds summed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from soundwhere.data.annotation.findings import Defect, Findings
from soundwhere.data.annotation.records import read_headless, require_unique
from soundwhere.data.benchmarks.media import ClipName
from soundwhere.data.benchmarks.scenes import Benchmark, Level, Record, Shot, TruthKind, assemble
from soundwhere.errors import ConfigError, DataError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from soundwhere.data.benchmarks.media import MediaFolder

PAIRINGS: Final = ("published", "accessible", "random")
"""Every pair of the published list; those of it whose media are there; or partners of another class drawn at random."""

_COLUMNS: Final = ("file1", "class1", "file2", "class2")


@dataclass(frozen=True)
class Pair:
    """Two clips, the left one first."""

    left: str
    right: str

    @property
    def name(self) -> str:
        """Unique within a list, also where a clip has several partners."""
        return f"{self.left}+{self.right}"


@dataclass(frozen=True)
class PairedClips:
    """What duets are made of.

    Attributes:
        kinds: The class of every clip.
        list_file: The published list, as its authors name it.
        published: Reads it.
        shot: A clip as one frame of a scene.
        lacking: What a clip lacks besides media, in words; empty if nothing.
    """

    kinds: Mapping[str, str]
    list_file: str
    published: Callable[[], Sequence[Pair]]
    shot: Callable[[str], Shot]
    lacking: Callable[[str], str]


def read_pairs(path: Path, kinds: Mapping[str, str]) -> list[Pair]:
    """Read a list without header: clip, class, clip, class.

    Args:
        path: The list. Classes may be written with `_` for blanks and without commas.
        kinds: The class of every known clip.

    Raises:
        DataError: The list is malformed, or names an unknown clip or another class than is known.
    """
    rows = read_headless(path, _COLUMNS)
    for row in rows:
        for clip, kind in (("file1", "class1"), ("file2", "class2")):
            if row[clip] not in kinds:
                raise DataError(f"{row.place}: no truth is known for {row[clip]}.", "Correct or remove that line.")
            if plain_kind(row[kind]) != plain_kind(kinds[row[clip]]):
                raise DataError(
                    f"{row.place}: {row[clip]} is of the class {kinds[row[clip]]!r}, not {row[kind]!r}.",
                    "Correct that line.",
                )
    pairs = [Pair(row["file1"], row["file2"]) for row in rows]
    require_unique((pair.name for pair in pairs), path)
    return pairs


def choose_pairs(
    pairing: str,
    published: Callable[[], Sequence[Pair]],
    kinds: Mapping[str, str],
    usable: Callable[[str], bool],
    seed: int = 0,
) -> list[Pair]:
    """The pairs to score on.

    Args:
        pairing: `published`, `accessible`, `random`, or the path of a list that was saved before.
        published: Gives the published list.
        kinds: The class of every clip.
        usable: Whether a clip's media are there.
        seed: Decides the partners of `random`.

    Raises:
        ConfigError: There is no such pairing.
        DataError: No pair is left.
    """
    if pairing == "published":
        return list(published())
    if pairing == "accessible":
        pairs = [pair for pair in published() if usable(pair.left) and usable(pair.right)]
    elif pairing == "random":
        pairs = random_pairs({clip: kind for clip, kind in kinds.items() if usable(clip)}, seed)
    elif Path(pairing).is_file():
        pairs = read_pairs(Path(pairing), kinds)
    else:
        raise ConfigError(
            f"There is no pairing {pairing!r}.", f"Choose {', '.join(PAIRINGS)}, or the file of a saved list."
        )
    if not pairs:
        raise DataError(
            f"No pair of the pairing {pairing!r} can be used: the media of its clips are not there.",
            "Give the folder of the media with --data.",
        )
    return pairs


def random_pairs(kinds: Mapping[str, str], seed: int) -> list[Pair]:
    """Each clip with a partner of another class; the same clips and seed give the same pairs."""
    if seed < 0:
        raise ConfigError(f"The seed of the pairs is {seed}.", "It must be 0 or more.")
    rng = np.random.default_rng(seed)
    names = sorted(kinds)
    if len(set(kinds.values())) < 2:
        return []
    pairs = []
    for name in names:
        partner = name
        while kinds[partner] == kinds[name]:
            partner = names[int(rng.integers(len(names)))]
        pairs.append(Pair(name, partner))
    return pairs


def duet_benchmark(
    name: str,
    clips: PairedClips,
    media: MediaFolder | None,
    *,
    truth: TruthKind,
    pairing: str = "published",
    seed: int = 0,
    level: Level = "as-recorded",
    findings: Sequence[Findings] = (),
) -> Benchmark:
    """Duets of pairs: frames side by side, each with the sound and the truth of its own clip.

    Args:
        name: Of the benchmark.
        clips: What the pairs are made of.
        media: Where the clips are.
        truth: What the truth was annotated as.
        pairing: `published`, `accessible`, `random`, or the path of a list that was saved before.
        seed: Of the random pairing.
        level: How loud each sound is.
        findings: Of the clips' own files; the list's are added.
    """

    def usable(clip: str) -> bool:
        return not clips.lacking(clip) and (media is None or media.has(ClipName(clip)))

    kinds = clips.kinds
    pairs = choose_pairs(pairing, clips.published, kinds, usable, seed)
    used = {clip for pair in pairs for clip in (pair.left, pair.right)}
    same = [pair for pair in pairs if kinds[pair.left] == kinds[pair.right]]
    of_list = Findings(
        clips.list_file if pairing == "published" else f"pairs, {pairing}",
        {
            "pairs": len(pairs),
            "clips": len(used),
            "classes": len({kinds[clip] for clip in used}),
            "partners": len({pair.right for pair in pairs}),
        },
        (Defect("pairs are of one class", len(same), "kept", tuple(pair.name for pair in same)),),
    )
    return assemble(
        name,
        [_record(pair, clips) for pair in pairs],
        media,
        truth=truth,
        level=level,
        choices={"pairing": f"random, seed {seed}" if pairing == "random" else pairing},
        findings=[*findings, of_list],
    )


def _record(pair: Pair, clips: PairedClips) -> Record:
    reasons = filter(None, (clips.lacking(pair.left), clips.lacking(pair.right)))
    return Record(pair.name, (clips.shot(pair.left), clips.shot(pair.right)), ", ".join(reasons))


def plain_kind(kind: str) -> str:
    """A class name in the spelling that all lists share.

    >>> plain_kind("female_speech_woman_speaking") == plain_kind("female speech, woman speaking")
    True
    """
    return kind.replace(",", "").replace("_", " ")
