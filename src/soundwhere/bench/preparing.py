"""How fast videos are prepared: two workers against two plain loops that decode, in one run; and in what memory."""

from __future__ import annotations

import multiprocessing
import resource
import time
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import av
import numpy as np

from soundwhere.errors import SoundwhereError
from soundwhere.files import make_folder
from soundwhere.inference.pool import Died, work_through
from soundwhere.media import container
from soundwhere.preparation.clip import prepare_clip
from soundwhere.preparation.lists import Listing
from soundwhere.preparation.plan import make_plan
from soundwhere.preparation.recipe import Recipe
from soundwhere.preparation.shard import ShardMaker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from multiprocessing.synchronize import Barrier

    from soundwhere.inference.pool import Tell
    from soundwhere.preparation.plan import Plan

WORKERS: Final = 2
SIZE_PX: Final = (640, 360)
FPS: Final = 25
_RATE_HZ: Final = 44_100
_PATIENCE_S: Final = 600.0  # for the other processes to be ready


@dataclass(frozen=True)
class PrepareBench:
    """Rates within one run.

    Attributes:
        clips: How many clips each of the two ways went through.
        seconds: How long a clip is.
        prepared: Clips a second of two workers.
        decoded: Clips a second of two plain one-thread decode loops.
        clip_bytes: Mean size of a prepared clip.
        video_bytes: Mean size of a video.
        memory_mb: Peak memory of a worker, by how many clips it had prepared.
    """

    clips: int
    seconds: float
    prepared: float
    decoded: float
    clip_bytes: float
    video_bytes: float
    memory_mb: dict[str, float]

    @property
    def ratio(self) -> float:
        """Of the two rates."""
        return self.prepared / self.decoded

    def to_dict(self) -> dict[str, Any]:
        """As JSON keeps it."""
        return {**asdict(self), "ratio": self.ratio, "workers": WORKERS}


@dataclass(frozen=True)
class _Stint:
    """What one process did: when, and the most memory it had, in MB."""

    began: float
    ended: float
    memory_mb: float


def bench_prepare(folder: Path, clips: int = 24, rounds: int = 3, seconds: float = 10.0) -> PrepareBench:
    """Measure on videos that are written first: 640 x 360, 25 frames a second, H.264 and AAC.

    The two ways take turns, so that a busy machine slows both. The processes of a turn begin at the same moment, after
    a clip that is not timed: starting them is not what is measured.

    Args:
        folder: An empty folder to work in.
        clips: How many videos; the plain loops decode each of them as often as it is prepared.
        rounds: How often the two ways take turns.
        seconds: How long each video is.
    """
    videos = write_videos(folder / "videos", clips, seconds)
    listing, recipe = Listing([folder / "videos"]), Recipe()
    half = -(-clips // WORKERS)
    taken: dict[str, float] = {"prepared": 0.0, "decoded": 0.0}
    size = 0
    for turn in range(rounds):
        plan = make_plan(folder / f"out-{turn}", listing, recipe, shard_bytes=1, clips_per_shard=half)
        made = _together(range(plan.shards), partial(_preparer, plan, listing, recipe))
        taken["prepared"] += _span(made)
        parts = [videos[start : start + half] for start in range(0, clips, half)]
        taken["decoded"] += _span(_together(parts, _decoder))
        size = sum(path.stat().st_size for path in plan.folder.glob("*.tar"))
    memory = {}
    for times in (1, 4):  # the same process, one shard after the other
        plan = make_plan(folder / f"memory-{times}", listing, recipe, shard_bytes=1, clips_per_shard=half)
        (stint,) = _together([[0] * times], partial(_repeater, plan, listing, recipe))
        memory[str(half * times)] = stint.memory_mb
    total = clips * rounds
    return PrepareBench(
        total,
        seconds,
        total / taken["prepared"],
        total / taken["decoded"],
        size / clips,
        sum(path.stat().st_size for path in videos) / clips,
        memory,
    )


def write_videos(folder: Path, count: int, seconds: float) -> list[Path]:
    """Write videos of moving noise with a tone each, H.264 and AAC."""
    make_folder(folder)
    width, height = SIZE_PX
    paths = [folder / f"{number:05d}.mp4" for number in range(count)]
    for number, path in enumerate(paths):
        rng = np.random.default_rng(number)
        coarse = rng.integers(0, 255, (height // 20, width // 10, 3), np.uint8).repeat(20, 0).repeat(20, 1)
        tone = 0.3 * np.sin(2 * np.pi * (200 + 10 * number) * np.arange(round(seconds * _RATE_HZ)) / _RATE_HZ)
        with av.open(path, "w") as output:
            video = output.add_stream("libx264", rate=FPS, width=width, height=height, pix_fmt="yuv420p")
            audio = output.add_stream("aac", rate=_RATE_HZ, layout="mono")
            for index in range(round(seconds * FPS)):
                start = 2 * index % width
                picture = np.ascontiguousarray(coarse[:height, start : start + width])
                frame = av.VideoFrame.from_ndarray(picture, format="rgb24")
                frame.pts, frame.time_base = index, Fraction(1, FPS)
                output.mux(video.encode(frame))
            block = av.AudioFrame.from_ndarray(tone[None].astype(np.float32), format="fltp", layout="mono")
            block.sample_rate, block.pts, block.time_base = _RATE_HZ, 0, Fraction(1, _RATE_HZ)
            output.mux(audio.encode(block))
            output.mux(video.encode(None))
            output.mux(audio.encode(None))
    return paths


def _together(items: Iterable[Any], make: Callable[[Barrier, Tell], Callable[[Any], _Stint]]) -> list[_Stint]:
    """Give each of some processes one item."""
    todo = list(items)
    ready = multiprocessing.get_context("spawn").Barrier(len(todo), timeout=_PATIENCE_S)
    stints = [answer for _, answer in work_through(todo, partial(make, ready), len(todo))]
    for stint in stints:
        if isinstance(stint, Died):
            raise SoundwhereError(f"A process ended with {stint.code}.", "Free some memory, then measure again.")
    return [stint for stint in stints if isinstance(stint, _Stint)]


def _span(stints: list[_Stint]) -> float:
    """From the first that began to the last that ended, in seconds."""
    return max(stint.ended for stint in stints) - min(stint.began for stint in stints)


def _timed(ready: Barrier, first: Callable[[], object], work: Callable[[], object]) -> _Stint:
    """Do `first`, wait for the other processes, then do the work that counts."""
    first()
    ready.wait()
    began = time.monotonic()  # one clock for all processes of a machine
    work()
    return _Stint(began, time.monotonic(), _peak_mb())


def _peak_mb() -> float:
    """Most memory this process has had; what getrusage says also counts the process that started it."""
    status = Path("/proc/self/status")
    if status.is_file():
        lines = dict(line.split(":", 1) for line in status.read_text(encoding="utf-8").splitlines())
        return float(lines["VmHWM"].split()[0]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _preparer(plan: Plan, listing: Listing, recipe: Recipe, ready: Barrier, _: Tell) -> Callable[[int], _Stint]:
    container.decoder_threads = 1
    maker = ShardMaker(plan, listing, recipe)

    def make(shard: int) -> _Stint:
        _, entry = next(plan.entries(shard))
        return _timed(ready, lambda: prepare_clip(entry, listing, recipe), lambda: maker.make(shard))

    return make


def _repeater(plan: Plan, listing: Listing, recipe: Recipe, ready: Barrier, _: Tell) -> Callable[[list[int]], _Stint]:
    """Make the same shard again and again."""
    container.decoder_threads = 1
    maker = ShardMaker(plan, listing, recipe)

    def make(shards: list[int]) -> None:
        for shard in shards:
            maker.make(shard)
            for path in plan.folder.glob("shard-*"):
                path.unlink()

    return lambda shards: _timed(ready, lambda: None, lambda: make(shards))


def _decoder(ready: Barrier, _: Tell) -> Callable[[list[Path]], _Stint]:
    """The plain loop: every frame and every packet of sound of one video after the other, on one thread."""

    def decode(paths: list[Path]) -> None:
        for path in paths:
            for kind in ("video", "audio"):
                with av.open(str(path)) as source:
                    stream = getattr(source.streams, kind)[0]
                    stream.codec_context.thread_count = 1
                    for frame in source.decode(stream):
                        frame.to_ndarray()

    return lambda paths: _timed(ready, lambda: decode(paths[:1]), lambda: decode(paths))
