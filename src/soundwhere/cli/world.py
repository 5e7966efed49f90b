"""`soundwhere world`: scenes and videos of the made-up world as files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from soundwhere.errors import ConfigError
from soundwhere.terminal.options import parse

DESCRIPTION = """\
Write scenes and videos of the made-up world. Existing files are kept.

Examples:
  soundwhere world --out world                   100 scenes: pictures, sounds, masks and a manifest
  soundwhere world --out world --movies 5        ... and 5 short videos with their truth
  soundwhere world --out test --seed 1           other pictures and sounds of the same kinds
  soundwhere world --out made-up --clips 960     a data set to train and score on, in the layout of real-duet
"""


@dataclass(frozen=True)
class Options:
    """Write scenes and videos of the made-up world. Existing files are kept."""

    out: Path
    """Folder to write into: scenes/ with scenes.csv, and movies/."""
    scenes: int = 100
    """How many scenes."""
    clips: int = 0
    """How many clips of one thing each, in the layout of real-duet with lists of duets and trios; then no scenes."""
    movies: int = 0
    """How many videos in which things move, and start and stop sounding."""
    seed: int = 0
    """Decides everything; another seed gives held-out scenes."""
    sounding: int = 2
    """Things that sound in each."""
    silent: int = 1
    """Things that are only seen."""


def run(arguments: list[str]) -> int:
    """Write scenes and movies."""
    options = parse(Options, arguments, "world", description=DESCRIPTION)
    if min(options.scenes, options.movies, options.clips) < 0 or options.scenes + options.movies == 0:
        raise ConfigError("There is nothing to write.", "Give --scenes or --movies a number above 0.")
    if options.clips:
        return _write_clips(options)
    from soundwhere.data.synthetic.files import claim, write_scenes
    from soundwhere.data.synthetic.movie import write_movie
    from soundwhere.data.synthetic.world import World
    from soundwhere.terminal.messages import show_path
    from soundwhere.terminal.progress import Bar

    world = World(seed=options.seed)
    if options.scenes:
        manifest = write_scenes(world, options.out / "scenes", options.scenes, options.sounding, options.silent)
        print(f"wrote {options.scenes} scene{'s' * (options.scenes > 1)}, listed in {show_path(manifest)}")
    folder = options.out / "movies"
    if options.movies:
        world.cast(0, options.sounding, options.silent)  # complains before the folder is claimed
        claim(folder / "world.json", {"sounding": options.sounding, "silent": options.silent})  # names tell the seed
    with Bar("movies", options.movies, "movies") as bar:
        for index in range(options.movies):
            path = folder / f"made-up-{options.seed}-{index}.mp4"
            if not path.with_suffix(".truth.json").is_file():  # written last
                write_movie(path, world, index, sounding=options.sounding, silent=options.silent)
            bar.update(index + 1, options.movies)
    if options.movies:
        print(f"wrote {options.movies} movie{'s' * (options.movies > 1)} with the truth to {show_path(folder)}")
    return 0


def _write_clips(options: Options) -> int:
    from soundwhere.data.synthetic.data_set import LEAST, Sizes, write_data_set
    from soundwhere.terminal.messages import show_path
    from soundwhere.terminal.progress import Bar

    if options.clips < LEAST:
        raise ConfigError(f"--clips {options.clips} is too few for three splits.", f"Give {LEAST} or more.")
    with Bar("clips", options.clips, "clips") as bar:
        write_data_set(options.out, Sizes.of(options.clips, options.scenes), options.seed, bar.update)
    print(f"wrote {options.clips} clips, and {options.scenes} duets and trios each, to {show_path(options.out)}")
    return 0
