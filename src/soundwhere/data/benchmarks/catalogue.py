"""Every benchmark by name."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path  # noqa: TC003  (the command line reads the types of `Options`)
from typing import TYPE_CHECKING, Final, Literal, cast

from soundwhere.constants import FRAME_PX
from soundwhere.data.annotation.findings import Findings
from soundwhere.data.benchmarks.instruments import VGGSoundInstruments
from soundwhere.data.benchmarks.media import MediaFolder
from soundwhere.data.benchmarks.music import Music, MusicAVGN
from soundwhere.data.benchmarks.music_synthetic import MusicSynthetic
from soundwhere.data.benchmarks.scene_folder import SceneFolder
from soundwhere.data.benchmarks.scenes import Benchmark, Level
from soundwhere.data.benchmarks.silent import SilentNegatives
from soundwhere.data.benchmarks.vggsound import VGGSoundLists
from soundwhere.data.benchmarks.vggsound_duet import VGGSoundDuet
from soundwhere.data.benchmarks.vggss import VGGSS, Subset
from soundwhere.data.collections import Fold  # noqa: TC001 (the command line reads the types of `Options`)
from soundwhere.data.real_duet import Order, RealDuet, RealDuetScenes, SceneList
from soundwhere.data.synthetic.scenes import SPLIT_SEEDS, WorldScenes
from soundwhere.data.synthetic.world import Layout, World
from soundwhere.data.video_trios import VideoTrios
from soundwhere.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

    from soundwhere.data.benchmarks.music import Players


@dataclass(frozen=True)
class Options:
    """What can be chosen; each benchmark takes some of it.

    Attributes:
        masks: Folder of masks, one for each clip; by default `masks` in the folder of the media.
        pairing: How clips are paired: `published`, `accessible`, `random`, or the file of a saved list.
        seed: Of the random pairing.
        subset: Classes of VGG-SS: all, or those that EZ-VSL's open-set training heard or did not hear.
        level: How loud each sound is before sounds are summed: as recorded, as the field does, or at equal RMS.
        split: `val` to choose by, `test` to report.
        count: How many made-up scenes.
        layout: Where made-up things are: anywhere, or one in each column or row.
        order: How real photos are put together.
        sounding: How many made-up things sound; 1 for solos.
        silent: How many made-up things are seen only.
        left_out: Of which collections, the first or the second of each class, the trios sound.
    """

    masks: Path | None = None
    pairing: str = "published"
    seed: int = 0
    subset: Subset = "all"
    level: Level = "as-recorded"
    split: Literal["val", "test"] = "test"
    count: int = 500
    layout: Layout = "free"
    order: Order = "side-by-side"
    sounding: int = 2
    silent: int = 1
    left_out: Fold = "second"


@dataclass(frozen=True)
class Places:
    """Where a benchmark's files are; asking for one that was not given is an error that says which flag is missing."""

    name: str
    data: Path | None
    annotation_folder: Path | None

    @property
    def root(self) -> Path:
        """The folder of the data set."""
        if self.data is None:
            raise ConfigError(f"The benchmark {self.name} needs a folder.", "Give it with --data DIR.")
        return self.data

    @property
    def media(self) -> MediaFolder | None:
        """The media, if a folder was given; without, all scenes count as missing."""
        return None if self.data is None else MediaFolder(self.data)

    @property
    def annotations(self) -> Path:
        """The annotation files: their own folder, or `annotations` in that of the media, or that itself."""
        if self.annotation_folder is not None:
            return self.annotation_folder
        if self.data is None:
            raise ConfigError(f"The benchmark {self.name} needs annotations.", "Give their folder with --annotations.")
        inner = self.data / "annotations"
        return inner if inner.is_dir() else self.data

    def masks(self, options: Options) -> Path | None:
        """The folder of masks: the one chosen, or `masks` in that of the media if there is one."""
        if options.masks is not None or self.data is None:
            return options.masks
        return self.data / "masks" if (self.data / "masks").is_dir() else None


@dataclass(frozen=True)
class Entry:
    """A line of the catalogue: what a benchmark is, how it is opened, and which options it takes."""

    what: str
    open: Callable[[Places, Options], Benchmark]
    options: tuple[str, ...] = ("level",)


def find_entry(name: str) -> Entry:
    """What is known of a benchmark before it is opened.

    Raises:
        ConfigError: There is none of that name; the remedy lists them all.
    """
    if name not in BENCHMARKS:
        raise ConfigError(f"There is no benchmark {name!r}.", f"Choose one of: {', '.join(BENCHMARKS)}.")
    return BENCHMARKS[name]


def open_benchmark(
    name: str, data: Path | None = None, annotations: Path | None = None, options: Options | None = None
) -> Benchmark:
    """Open a benchmark.

    Args:
        name: One of `BENCHMARKS`.
        data: Folder of its media (or of the data set). Without one, benchmarks with annotation files of their own still
            give their counts and truths, with every scene reported as missing.
        annotations: Folder of the annotation files; by default `annotations` in `data`, or `data` itself.
        options: What is chosen; an option that the benchmark does not take must be left as it is.

    Raises:
        ConfigError: The name is unknown, a folder is needed, or an option has no meaning for this benchmark.
        DataError: Something is missing or malformed.
    """
    entry = find_entry(name)
    options = options or Options()
    standard = Options()
    for option in fields(Options):
        changed = getattr(options, option.name) != getattr(standard, option.name)
        if changed and option.name not in entry.options:
            raise ConfigError(
                f"The benchmark {name} does not take the option {_flag(option.name)!r}.",
                f"It takes: {', '.join(map(_flag, entry.options)) or 'none'}.",
            )
    return entry.open(Places(name, data, annotations), options)


def _flag(option: str) -> str:
    return option.replace("_", "-")


def survey(annotations: Path) -> list[Findings]:
    """What is in every upstream annotation file, each read whole.

    Raises:
        DataError: A file is missing or malformed.
    """
    vggss = VGGSS(annotations)
    vggss.subset("heard")
    vggss.subset("unheard")
    duet = VGGSoundDuet(annotations).benchmark(None)
    instruments = VGGSoundInstruments(annotations, None).duets(None)
    return [
        *vggss.findings,
        duet.findings[-1],
        *instruments.findings,
        *(Music(annotations, players).findings for players in ("duet", "solo")),
        *(MusicAVGN(annotations, players).findings for players in ("duet", "solo")),
        SilentNegatives(annotations).findings,
        *VGGSoundLists(annotations).findings,
    ]


def _real(places: Places, options: Options, scenes: str, frames: int) -> Benchmark:
    name = cast(SceneList, f"{scenes}_{options.split}")
    listed = RealDuet(places.root).scenes(name, order=options.order)
    grid = (frames, 1) if options.order == "stacked" else (1, frames)
    return _levelled(places, listed, f"{name}.csv", grid, split=options.split, order=options.order)


def _collections(places: Places, options: Options) -> Benchmark:
    listed = RealDuet(places.root).collection_trios(options.left_out, options.split, order=options.order)
    grid = (3, 1) if options.order == "stacked" else (1, 3)
    chosen = {"split": options.split, "order": options.order, "left_out": options.left_out}
    return _levelled(places, listed, "audios.csv", grid, **chosen)


def _video_trios(places: Places, options: Options) -> Benchmark:
    listed = VideoTrios(RealDuet(places.root).videos(options.split))
    return _levelled(places, listed, "videos.csv", (1, 3), split=options.split)


def _levelled(
    places: Places, listed: RealDuetScenes | VideoTrios, source: str, grid: tuple[int, int], split: str, **others: str
) -> Benchmark:
    """A benchmark of a list whose sounds are all equally loud; frames of videos are known, but not what is in them."""
    return Benchmark(
        name=places.name,
        scenes=listed,
        order=listed.names,
        grid=grid,
        truth="boxes" if isinstance(listed, VideoTrios) else "masks",
        truths=listed.truths(),
        choices={"split": split, "level": "equal-rms", **others},
        findings=(Findings(source, {"scenes": len(listed)}),),
    )


def _made_up(places: Places, options: Options) -> Benchmark:
    if options.count < 1 or options.sounding < 0 or options.silent < 0 or options.sounding + options.silent < 1:
        raise ConfigError(
            f"{options.count} made-up scenes of {options.sounding} sounding and {options.silent} silent things.",
            "There must be at least one scene and one thing.",
        )
    things = options.sounding + options.silent
    grids = {"free": (1, 1), "side-by-side": (1, things), "stacked": (things, 1)}
    rows, columns = grids[options.layout]
    world = World(SPLIT_SEEDS[options.split], (rows * FRAME_PX, columns * FRAME_PX))
    scenes = WorldScenes(world, options.count, options.sounding, options.silent, options.layout)
    return Benchmark(
        name=places.name,
        scenes=scenes,
        order=tuple(f"made-up-{world.seed}-{index}" for index in range(options.count)),
        grid=(rows, columns),
        truth="masks" if options.sounding else "none",
        truths=scenes,
        choices={
            "split": options.split,
            "layout": options.layout,
            "sounding": str(options.sounding),
            "silent": str(options.silent),
        },
        findings=(Findings("made-up world", {"scenes": options.count}),),
    )


def _duet_mask(places: Places, options: Options) -> Benchmark:
    masks = places.masks(options)
    if masks is None:
        raise ConfigError(
            "vggsound-duet-mask needs the masks, which its authors publish apart.", "Give their folder with --masks."
        )
    return _duet(places, options, masks)


def _duet(places: Places, options: Options, masks: Path | None = None) -> Benchmark:
    return VGGSoundDuet(places.annotations).benchmark(
        places.media, masks=masks, pairing=options.pairing, seed=options.seed, level=options.level
    )


def _instrument_duets(places: Places, options: Options) -> Benchmark:
    reader = VGGSoundInstruments(places.annotations, places.masks(options))
    return reader.duets(places.media, pairing=options.pairing, seed=options.seed, level=options.level)


def _music(reader: type[Music] | type[MusicAVGN], players: Players) -> Callable[[Places, Options], Benchmark]:
    return lambda places, options: reader(places.annotations, players).benchmark(places.media, options.level)


_PAIRED: Final = ("pairing", "seed", "level")

BENCHMARKS: Final[dict[str, Entry]] = {
    "real-duet": Entry(
        "two real photos side by side, both sound", lambda p, o: _real(p, o, "duets", 2), ("split", "order")
    ),
    "real-trio": Entry(
        "three real photos side by side, one is silent", lambda p, o: _real(p, o, "trios", 3), ("split", "order")
    ),
    "wide-duet": Entry("as real-duet, of 45 classes", lambda p, o: _real(p, o, "duets", 2), ("split", "order")),
    "wide-trio": Entry("as real-trio, of 45 classes", lambda p, o: _real(p, o, "trios", 3), ("split", "order")),
    "collection-trio": Entry(
        "trios of nine classes that sound like a collection left out of training",
        _collections,
        ("split", "order", "left_out"),
    ),
    "video-trio": Entry(
        "three real videos side by side, two of which are heard; only frames are known: --split val",
        _video_trios,
        ("split",),
    ),
    "synthetic": Entry(
        "the made-up world; needs no data", _made_up, ("split", "count", "layout", "sounding", "silent")
    ),
    "vgg-ss": Entry(
        "VGG-SS: one source, boxes",
        lambda p, o: VGGSS(p.annotations).benchmark(p.media, o.subset, o.level),
        ("subset", "level"),
    ),
    "vggsound-duet": Entry("two VGG-SS clips side by side, boxes", _duet, _PAIRED),
    "vggsound-duet-mask": Entry("two VGG-SS clips side by side, masks", _duet_mask, (*_PAIRED, "masks")),
    "vggsound-instruments": Entry(
        "one instrument, masks",
        lambda p, o: VGGSoundInstruments(p.annotations, p.masks(o)).benchmark(p.media, o.level),
        ("level", "masks"),
    ),
    "vggsound-instruments-duet": Entry("two instruments side by side, masks", _instrument_duets, (*_PAIRED, "masks")),
    "music-duet": Entry("real duets, DSOL's boxes", _music(Music, "duet")),
    "music-duet-avgn": Entry("real duets, AVGN's part of the boxes", _music(MusicAVGN, "duet")),
    "music-solo": Entry("real solos, DSOL's boxes", _music(Music, "solo")),
    "music-solo-avgn": Entry("real solos, AVGN's part of the boxes", _music(MusicAVGN, "solo")),
    "music-synthetic": Entry(
        "four instruments in a joined picture, two sound, boxes",
        lambda p, o: MusicSynthetic(p.root / "box").benchmark(p.media, o.level),
    ),
    "silent-negatives": Entry(
        "SLAVC's pictures without what sounds; maps should stay dark",
        lambda p, o: SilentNegatives(p.annotations).benchmark(p.media, o.level),
    ),
    "folder": Entry("your own scenes: a folder with scenes.csv", lambda p, o: SceneFolder(p.root).benchmark(o.level)),
}
"""Every benchmark by name."""
