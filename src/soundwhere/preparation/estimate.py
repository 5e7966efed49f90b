"""What a preparation would do, how large its result would be and how long it would take, judged by a sample."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from soundwhere.data.shard_index import MANIFEST
from soundwhere.errors import MediaError
from soundwhere.preparation.clip import prepare_clip
from soundwhere.preparation.plan import make_plan, sample_numbers, tar_bytes
from soundwhere.preparation.prepare import frame_encoder
from soundwhere.preparation.shard import finished

if TYPE_CHECKING:
    from soundwhere.preparation.lists import Listing
    from soundwhere.preparation.recipe import Recipe


@dataclass(frozen=True)
class Estimate:
    """What a preparation would do.

    Attributes:
        clips: How many clips the list has.
        shards: How many shards they make.
        clips_per_shard: How many clips go into one.
        left: Clips of shards that are not finished.
        sampled: How many clips were tried.
        problems: Why some of them cannot be used.
        clip_bytes: Mean size of those that can; 0 without any.
        clip_s: Mean time that one took, on one processor.
    """

    clips: int
    shards: int
    clips_per_shard: int
    left: int
    sampled: int
    problems: tuple[str, ...]
    clip_bytes: float
    clip_s: float

    @property
    def size(self) -> float:
        """Of the whole set, in bytes."""
        return self.clip_bytes * self.clips * (1 - len(self.problems) / max(1, self.sampled))

    def seconds(self, workers: int) -> float:
        """How long what is left takes."""
        return self.clip_s * self.left / workers


def estimate(
    folder: Path,
    listing: Listing,
    recipe: Recipe,
    *,
    shard_bytes: int,
    clips_per_shard: int | None,
) -> Estimate:
    """Judge a preparation by a sample; nothing is written to its folder. The arguments are those of `prepare`."""
    encode, features = frame_encoder(recipe)
    with TemporaryDirectory() as temporary:
        begun = (folder / MANIFEST).exists()
        plan = make_plan(
            folder if begun else Path(temporary),
            listing,
            recipe,
            shard_bytes=shard_bytes,
            clips_per_shard=clips_per_shard,
            encode=encode,
            features=features,
        )
        left = sum(plan.count(shard) for shard in range(plan.shards) if not begun or finished(plan, shard) is None)
        sizes, problems, numbers = [], [], sample_numbers(plan.clips)
        began = time.perf_counter()
        for number in numbers:
            shard, place = divmod(number, plan.clips_per_shard)
            entry = next(entry for at, (_, entry) in enumerate(plan.entries(shard)) if at == place)
            try:
                sizes.append(tar_bytes(prepare_clip(entry, listing, recipe, encode).members))
            except MediaError as error:
                problems.append(error.message)
        took_s = time.perf_counter() - began
    return Estimate(
        plan.clips,
        plan.shards,
        plan.clips_per_shard,
        left,
        len(numbers),
        tuple(problems),
        sum(sizes) / max(1, len(sizes)),
        took_s / len(numbers),
    )
