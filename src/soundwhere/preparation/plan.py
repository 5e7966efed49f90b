"""The list cut into shards before any work begins, so that every worker knows what it has to do and nothing ever moves.

`clips.csv` holds every entry with its number; `manifest.json` the recipe, how many clips go into a shard, and where in
`clips.csv` each shard's lines begin. The manifest is written last: where there is one, the plan is whole.
"""

from __future__ import annotations

import csv
import hashlib
import io
import warnings
from array import array
from dataclasses import astuple, dataclass, fields
from typing import TYPE_CHECKING, Any, Final

from soundwhere.data.shard_index import CLIPS, FORMAT, MANIFEST, read_manifest
from soundwhere.errors import ConfigError, DataError, MediaError
from soundwhere.files import as_csv, atomic_path, claimed_folder, lock, write_json
from soundwhere.preparation.clip import prepare_clip
from soundwhere.preparation.lists import Entry
from soundwhere.preparation.recipe import versions

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from soundwhere.preparation.clip import Encode
    from soundwhere.preparation.lists import Listing
    from soundwhere.preparation.recipe import Recipe

SAMPLE: Final = 8  # clips that are prepared to find out how large they are
_COLUMNS: Final = ("number", *(field.name for field in fields(Entry)))
_TAR_BLOCK: Final = 512
_GUESS_BYTES: Final = 400_000  # of a clip, where none of the sample can be prepared


@dataclass(frozen=True)
class Plan:
    """A set of shards that is being made.

    Attributes:
        folder: Where it is.
        clips: How many clips the list has.
        clips_per_shard: How many go into a shard, but for the last.
        starts: Where in `clips.csv` each shard's lines begin, in bytes.
        classes: The names of classes, in the order of their numbers.
        manifest: All of the manifest.
    """

    folder: Path
    clips: int
    clips_per_shard: int
    starts: Sequence[int]
    classes: Sequence[str]
    manifest: dict[str, Any]

    @property
    def shards(self) -> int:
        """How many shards there will be."""
        return len(self.starts)

    def count(self, shard: int) -> int:
        """How many clips a shard is to hold."""
        return min(self.clips_per_shard, self.clips - shard * self.clips_per_shard)

    def entries(self, shard: int) -> Iterator[tuple[int, Entry]]:
        """The clips of a shard, with their numbers."""
        with (self.folder / CLIPS).open("rb") as file:
            file.seek(self.starts[shard])
            text = io.TextIOWrapper(file, "utf-8", newline="", errors="surrogateescape")
            for _, cells in zip(range(self.count(shard)), csv.reader(text), strict=False):
                yield int(cells[0]), _entry(cells[1:])


def make_plan(
    folder: Path,
    listing: Listing,
    recipe: Recipe,
    *,
    shard_bytes: int,
    clips_per_shard: int | None = None,
    encode: Encode | None = None,
    features: dict[str, Any] | None = None,
) -> Plan:
    """The plan of a folder: that which is there, if it is of the same list and recipe, else a new one.

    Args:
        folder: Where the shards go.
        listing: What is to be prepared.
        recipe: How.
        shard_bytes: About how large shards should be.
        clips_per_shard: How many clips go into a shard, instead.
        encode: The frozen encoder, if features are stored.
        features: What the manifest says about it.

    Raises:
        ConfigError: The folder holds shards of another list or recipe.
        DataError: There is something wrong with the list.
    """
    waiting = folder / ".plan.lock"
    with claimed_folder(folder), lock(waiting, wait=True):  # jobs of an array begin together
        if not (folder / MANIFEST).exists():
            try:
                _write(folder, listing, recipe, shard_bytes, clips_per_shard, encode, features)
            except DataError:  # a list that is refused leaves nothing
                waiting.unlink()
                raise
    plan = read_plan(folder)
    stored = plan.manifest
    if different := recipe.differences(stored["recipe"]):
        raise ConfigError(
            f"{folder} holds shards made with other options: {', '.join(different)}.",
            "Give the same options to go on, or another --out.",
        )
    if stored.get("features") != features:
        raise ConfigError(f"{folder} holds shards with the features of another encoder.", "Give another --out.")
    if clips_per_shard not in (None, plan.clips_per_shard):
        raise ConfigError(
            f"{folder} holds shards of {plan.clips_per_shard} clips, not {clips_per_shard}.", "Give another --out."
        )
    if stored["list_sha256"] != listing.fingerprint():
        raise ConfigError(
            f"{folder} holds shards of another list: a file was added, removed or changed since.",
            "Give the same list to go on, or another --out.",
        )
    if stored["versions"] != versions():
        warnings.warn(f"{folder} was begun with other versions of its libraries: bytes may differ.", stacklevel=2)
    return plan


def read_plan(folder: Path) -> Plan:
    """The plan of a folder.

    Raises:
        DataError: There is none, or it is damaged.
    """
    manifest = read_manifest(folder / MANIFEST, str(folder))
    try:
        starts, classes = list(map(int, manifest["starts"])), list(map(str, manifest["classes"]))
        size = (folder / CLIPS).stat().st_size
    except (KeyError, TypeError, ValueError, OSError) as error:
        raise DataError(f"{folder} holds a damaged plan: {error}.", "Begin again with another --out.") from error
    if size != manifest["clips_bytes"] or len(starts) != manifest["shards"]:
        raise DataError(f"{folder / CLIPS} is not the list that was cut.", "Begin again with another --out.")
    return Plan(folder, manifest["clips"], manifest["clips_per_shard"], starts, classes, manifest)


def _write(
    folder: Path,
    listing: Listing,
    recipe: Recipe,
    shard_bytes: int,
    clips_per_shard: int | None,
    encode: Encode | None,
    features: dict[str, Any] | None,
) -> None:
    """List the clips, estimate how many make a shard, and write both files."""
    fingerprint = listing.fingerprint()
    places = array("Q")  # every clip's, in bytes
    labels: set[str] = set()
    with atomic_path(folder / CLIPS) as temporary:
        with temporary.open("w", encoding="utf-8", newline="", errors="surrogateescape") as file:
            file.write(as_csv([_COLUMNS]))
            place = file.tell()
            for number, entry in enumerate(listing.entries()):
                places.append(place)
                line = as_csv([[number, *_cells(entry)]])
                file.write(line)
                place += len(line.encode(errors="surrogateescape"))
                labels |= {entry.label} - {""}
        digest = hashlib.sha256(temporary.read_bytes()).hexdigest()
        size = temporary.stat().st_size
        estimate = None
        if clips_per_shard is None:
            estimate = _clip_bytes(temporary, places, listing, recipe, encode)
            clips_per_shard = max(1, shard_bytes // estimate)
    manifest = {
        "format": FORMAT,
        "recipe": recipe.to_dict(),
        "features": features,
        "clips": len(places),
        "clips_per_shard": clips_per_shard,
        "estimated_clip_bytes": estimate,
        "shards": -(-len(places) // clips_per_shard),
        "classes": sorted(labels),
        "list_sha256": fingerprint,
        "clips_sha256": digest,
        "clips_bytes": size,
        "versions": versions(),
        "starts": places[::clips_per_shard].tolist(),
    }
    write_json(folder / MANIFEST, manifest)


def sample_numbers(count: int) -> list[int]:
    """Clips that stand for all: some that lie evenly in the list.

    >>> sample_numbers(3), sample_numbers(80)
    ([0, 1, 2], [5, 15, 25, 35, 45, 55, 65, 75])
    """
    return list(range(count)) if count <= SAMPLE else [(2 * i + 1) * count // (2 * SAMPLE) for i in range(SAMPLE)]


def tar_bytes(members: Sequence[tuple[str, bytes]]) -> int:
    """What members take up in a tar file."""
    return sum(_TAR_BLOCK + -(-len(data) // _TAR_BLOCK) * _TAR_BLOCK for _, data in members)


def _clip_bytes(clips: Path, places: Sequence[int], listing: Listing, recipe: Recipe, encode: Encode | None) -> int:
    """About how large a clip is: the mean of a sample, of those in it that can be prepared."""
    sizes = []
    with clips.open(encoding="utf-8", newline="", errors="surrogateescape") as file:
        for number in sample_numbers(len(places)):
            file.seek(places[number])
            entry = _entry(next(csv.reader(file))[1:])
            try:
                sizes.append(tar_bytes(prepare_clip(entry, listing, recipe, encode).members))
            except MediaError:
                continue
    return sum(sizes) // len(sizes) if sizes else _GUESS_BYTES


def _cells(entry: Entry) -> list[str]:
    return ["" if value is None else str(int(value) if isinstance(value, bool) else value) for value in astuple(entry)]


def _entry(cells: list[str]) -> Entry:
    name, file, start_s, end_s, sound, label, split, by_name = cells
    return Entry(name, file, float(start_s), float(end_s) if end_s else None, sound, label, split, by_name == "1")
