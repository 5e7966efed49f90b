"""A collection on paper: processor hours, bytes, shards and what feeds GPUs, from rates that were measured."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from soundwhere.data.shard_index import RECORD
from soundwhere.errors import DataError
from soundwhere.files import parse_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

VGGSOUND_CLIPS: Final = 200_000
INTERNET_CLIPS: Final = 100_000_000
SHARD_BYTES: Final = 256 << 20
GPUS: Final = (1, 8, 64)
SCENES_PER_GPU: Final = 250  # a second: an assumption to be replaced by the reader's own, not a measurement
CLIPS_PER_SCENE: Final = 2
GROWING: Final = (  # in bytes a clip: what a process holds, or maps
    ("where each line of `clips.csv` begins, in the driver of a preparation", 8),
    ("`index.bin`, mapped", RECORD.itemsize),
    ("the order of an epoch, in every process that draws scenes", 8),
)
_BLOCK: Final = re.compile(r"(<!-- figures: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


@dataclass(frozen=True)
class Rates:
    """What was measured on one machine.

    Attributes:
        prepared: Clips a second of one worker.
        clip_bytes: Of a prepared clip.
        fed: Clips a second that one process takes out of shards.
        ratios: What was measured against what, and the result in words.
    """

    prepared: float
    clip_bytes: float
    fed: float
    ratios: tuple[tuple[str, str], ...] = ()

    @classmethod
    def read(cls, folder: Path) -> Rates:
        """From what `soundwhere bench prepare` and `bench feed` wrote with --json.

        Raises:
            DataError: A file is missing or damaged.
        """
        try:
            made, fed = (parse_json((folder / name).read_bytes()) for name in ("prepare.json", "feed.json"))
            return cls(made["prepared"] / made["workers"], made["clip_bytes"], fed["shards"], _ratios(made, fed))
        except (OSError, ValueError, KeyError, TypeError) as error:
            remedy = "Measure with `soundwhere bench prepare --json` and `bench feed --json`."
            raise DataError(f"{folder} holds no figures: {error}.", remedy) from error


def _ratios(made: dict[str, Any], fed: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    memory = ", ".join(f"{megabytes:.0f} MB after {clips} clips" for clips, megabytes in made["memory_mb"].items())
    return (
        ("prepared by two workers, against two plain loops that decode", f"{made['ratio']:.2f}"),
        ("most memory of a worker", memory),
        ("fed from shards, against the same clips as videos", f"{fed['ratio']:.1f}"),
        ("fed from shards, against a plain read of the same bytes", f"{fed['share_of_read']:.2%}"),
    )


def preparing(rates: Rates, clips: int) -> dict[str, float]:
    """What preparing takes: core_hours = clips / rate / 3600, bytes = clips * clip_bytes, shards = bytes / 256 MB.

    >>> preparing(Rates(2.0, 512_000, 100.0), 7200)["core_hours"]
    1.0
    """
    size = clips * rates.clip_bytes
    return {"core_hours": clips / rates.prepared / 3600, "bytes": size, "shards": -(-size // SHARD_BYTES)}


def feeding(
    rates: Rates, gpus: int, scenes_per_gpu: float = SCENES_PER_GPU, clips: int = VGGSOUND_CLIPS
) -> dict[str, float]:
    """What GPUs need: clips_s = gpus * scenes_s * 2, bytes_s = clips_s * clip_bytes, cores = clips_s / rate of one.

    >>> feeding(Rates(2.0, 500_000, 100.0), 8, 250.0)["cores"]
    40.0
    """
    wanted = gpus * scenes_per_gpu * CLIPS_PER_SCENE
    return {
        "clips_s": wanted,
        "mb_s": wanted * rates.clip_bytes / 1e6,
        "cores": wanted / rates.fed,
        "epoch_s": clips / (gpus * scenes_per_gpu),
    }


def fill_page(text: str, rates: Rates) -> str:
    """Put the tables of a page's marked blocks in: `<!-- figures: preparing -->` up to `<!-- end -->`."""
    makers = {"measured": _measured, "preparing": _preparing, "feeding": _feeding, "growing": _growing}
    tables = {name: "\n".join(make(rates)) for name, make in makers.items()}
    return _BLOCK.sub(lambda found: f"{found[1]}{tables[found[2]]}\n{found[3]}", text)


def _measured(rates: Rates) -> Iterator[str]:
    yield from _head(["measured in one run", "result"])
    yield from map(_row, rates.ratios)


def _growing(rates: Rates) -> Iterator[str]:
    yield from _head(["what grows with the list", "bytes a clip", "VGGSound", "internet"])
    for name, size in GROWING:
        yield _row([name, size, *(f"{size * clips / 1e9:.2f} GB" for clips in (VGGSOUND_CLIPS, INTERNET_CLIPS))])
    shards = [f"{2 * preparing(rates, clips)['shards']:.0f}" for clips in (VGGSOUND_CLIPS, INTERNET_CLIPS)]
    yield _row(["files in one folder (a tar and its index each)", "", *shards])


def _preparing(rates: Rates) -> Iterator[str]:
    yield from _head(["collection", "clips", "core hours", "size", "shards"])
    for name, clips in (("VGGSound", VGGSOUND_CLIPS), ("internet", INTERNET_CLIPS)):
        found = preparing(rates, clips)
        size = f"{found['bytes'] / 1e12:.2f} TB"
        yield _row([name, f"{clips:_}".replace("_", " "), f"{found['core_hours']:.0f}", size, f"{found['shards']:.0f}"])


def _feeding(rates: Rates) -> Iterator[str]:
    yield from _head(["GPUs", "clips/s", "MB/s", "cores that decode", "seconds an epoch of VGGSound"])
    for gpus in GPUS:
        found = feeding(rates, gpus)
        cells: list[Any] = [gpus, *(f"{found[name]:.0f}" for name in ("clips_s", "mb_s", "cores", "epoch_s"))]
        yield _row(cells)


def _head(cells: Sequence[str]) -> Iterator[str]:
    yield _row(cells)
    yield "|" + "---|" * len(cells)


def _row(cells: Sequence[Any]) -> str:
    return f"| {' | '.join(map(str, cells))} |"
