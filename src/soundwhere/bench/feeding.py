"""How fast clips reach training: out of shards, of the same clips as videos, and against reading the bytes alone."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from soundwhere.bench.clock import WARM_UP, Clock
from soundwhere.bench.preparing import write_videos
from soundwhere.data.folder import FolderClips
from soundwhere.data.shards import ShardClips
from soundwhere.preparation.lists import Listing
from soundwhere.preparation.prepare import prepare
from soundwhere.preparation.recipe import Recipe

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_PIECE: Final = 1 << 20


@dataclass(frozen=True)
class FeedBench:
    """Rates within one run, of one process.

    Attributes:
        clips: How many different clips there are.
        shards: Clips a second out of shards: a frame, and 3 s of sound.
        videos: Clips a second out of the same clips as videos.
        clip_bytes: Mean size of a clip in the shards.
        read_mb: MB a second of a plain read of the shards from start to end, as warm as they are.
    """

    clips: int
    shards: float
    videos: float
    clip_bytes: float
    read_mb: float

    @property
    def ratio(self) -> float:
        """How many times faster shards are than videos."""
        return self.shards / self.videos

    @property
    def share_of_read(self) -> float:
        """The bytes that are fed a second, as a share of the plain read."""
        return self.shards * self.clip_bytes / (self.read_mb * 1e6)

    def to_dict(self) -> dict[str, Any]:
        """As JSON keeps it."""
        return {**asdict(self), "ratio": self.ratio, "share_of_read": self.share_of_read}


def bench_feed(folder: Path, clips: int = 24, rounds: int = 3, seconds: float = 10.0) -> FeedBench:
    """Measure on videos that are written first; the ways take turns.

    Args:
        folder: An empty folder to work in.
        clips: How many videos.
        rounds: How often every clip is asked for in each way, in an order of its own.
        seconds: How long each video is.
    """
    write_videos(folder / "videos", clips, seconds)
    prepare(folder / "shards", Listing([folder / "videos"]), Recipe(), clips_per_shard=clips, workers=1)
    sharded, filmed = ShardClips(folder / "shards"), FolderClips(folder / "videos")
    tars = list((folder / "shards").glob("*.tar"))
    size = sum(path.stat().st_size for path in tars)
    clock = Clock()
    rng = np.random.default_rng(0)
    count = len(sharded)
    for turn in range(rounds + 1):  # the first is not counted
        order = rng.permutation(count).tolist()

        def out_of_shards(order: list[int] = order) -> None:
            for index in order:
                number = index + int(rng.integers(sharded.frames)) * count
                sharded.image(number)
                sharded.sound(number, rng)

        def out_of_videos(order: list[int] = order) -> None:
            for index in order:
                filmed[index].image()
                filmed[index].recording()

        ways: dict[str, Callable[[], None]] = {
            "shards": out_of_shards,
            "videos": out_of_videos,
            "read": lambda: _read(tars),
        }
        for name, way in ways.items():
            with clock.time(name if turn else WARM_UP):
                way()
    rounds_s = clock.speeds()
    shards, videos = count * rounds_s["shards"], len(filmed) * rounds_s["videos"]
    return FeedBench(count, shards, videos, size / count, size * rounds_s["read"] / 1e6)


def _read(paths: list[Path]) -> None:
    for path in paths:
        with path.open("rb") as file:
            while file.read(_PIECE):
                pass
