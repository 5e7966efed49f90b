"""`soundwhere clip.mp4`: where each sound of a video comes from."""

from __future__ import annotations

import glob
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from soundwhere.cli.options import FLAG, named, parse, say
from soundwhere.errors import ConfigError, MediaError, SoundwhereError
from soundwhere.inference.formats import DEFAULT_FORMATS, parse_formats

if TYPE_CHECKING:
    from collections.abc import Iterator

    from soundwhere.inference.localiser import Localiser

VIDEOS = frozenset(
    [".mp4", ".m4v", ".mov", ".mkv", ".webm", ".avi", ".mpg", ".mpeg", ".ts", ".mts", ".flv", ".wmv", ".3gp", ".ogv"]
)

DESCRIPTION = """\
Show where each sound of a video comes from.

A clip whose result is finished (its folder holds result.json) is skipped unless --overwrite is given.

Examples:
  soundwhere clip.mp4                         overlay video, page, pictures and JSON in clip.soundwhere/
  soundwhere films/ 'more/*.mov' --out found  every video below a folder and of a pattern, into found/
  soundwhere photo.jpg --audio sound.wav      a photo with a recording
  soundwhere clip.mp4 --start 60 --end 90 --formats json,npz
"""


@dataclass(frozen=True)
class Options:
    """Show where each sound of a video comes from.

    A clip whose result is finished (its folder holds result.json) is skipped unless --overwrite is given.
    """

    files: Annotated[tuple[str, ...], tyro.conf.Positional, named("CLIP ...")]
    """Videos, folders of videos, patterns; photos with --audio."""
    out: Annotated[Path | None, named("DIR")] = None
    """Folder in which NAME.soundwhere/ is written for every clip; by default beside the clip."""
    model: Annotated[str | None, named("MODEL")] = None
    """Name of a model, or a file written by `soundwhere train`; by default the built-in model."""
    audio: Annotated[Path | None, named("FILE")] = None
    """Take the sound from this file."""
    formats: Annotated[str, tyro.conf.arg(metavar="FORMAT,...")] = ",".join(DEFAULT_FORMATS)
    """Any of mp4,png,json,csv,npz,html; json is always written."""
    fps: float = 5.0
    """Frames analysed per second."""
    hop_s: float = 0.5
    """Seconds between windows of sound."""
    start: Annotated[float, tyro.conf.arg(metavar="SECOND")] = 0.0
    """Second to begin at."""
    end: Annotated[float | None, named("SECOND")] = None
    """Second to end at."""
    device: str = "auto"
    """auto, cpu, cuda or cuda:N."""
    squash: Annotated[bool, *FLAG] = False
    """Squash frames to squares, as the paper does, instead of keeping their shape."""
    smooth: Annotated[bool, *FLAG] = True
    """Show every map as it is instead of averaging lightly over time."""
    overwrite: Annotated[bool, *FLAG] = False
    """Do clips again whose result is finished."""


def run(arguments: list[str]) -> int:
    """Localise every clip; one that fails is reported at the end, the others are done."""
    options = parse(Options, arguments, "localise", description=DESCRIPTION)
    formats = parse_formats(options.formats)
    if not options.files:
        raise ConfigError("No file was given.", "For example: soundwhere clip.mp4. More: soundwhere localise --help")
    clips, failures = _find(options.files)
    if options.audio is not None and len(clips) > 1:
        raise ConfigError(f"One recording cannot go with {len(clips)} clips.", "Give one clip with --audio.")
    batch = _Batch(options, formats)
    for clip in clips:
        try:
            batch.do(clip)
        except SoundwhereError as error:
            if len(clips) == 1 and not failures:
                raise
            failures.append(error)
            say(f"soundwhere: {error.message}")
    if len(clips) + len(failures) > 1:
        print(f"{batch.done} localised, {batch.skipped} skipped, {len(failures)} failed")
    if not failures:
        return 0
    if len(failures) == 1 and not batch.done + batch.skipped:
        raise failures[0]
    say("failed:\n" + "\n".join(f"  {line}" for error in failures for line in str(error).splitlines()))
    return 1 if batch.done + batch.skipped else 2


class _Batch:
    """Localises one clip after the other with the same model, which is loaded when it is first needed."""

    def __init__(self, options: Options, formats: tuple[str, ...]) -> None:
        self.options, self.formats = options, formats
        self.done = self.skipped = 0
        self._localiser: Localiser | None = None
        self._taken: dict[Path, Path] = {}

    def do(self, clip: Path) -> None:
        """Localise a clip and say what was found, or skip it."""
        from soundwhere.cli.show import Bar, print_sources, print_written, show_path
        from soundwhere.inference.folder import check_target, is_finished, result_folder
        from soundwhere.inference.footage import Footage

        options = self.options
        folder = result_folder(clip, options.out)
        other = self._taken.setdefault(folder.absolute(), clip)
        if other != clip:
            raise ConfigError(f"{clip} and {other} would both be written to {folder}.", "Give each its own --out.")
        if is_finished(folder) and not options.overwrite:
            print(f"{show_path(clip)}  skipped: {show_path(folder)} is finished (--overwrite does it again)")
            self.skipped += 1
            return
        check_target(folder, options.overwrite)
        footage = Footage.open(clip, options.audio, options.start, options.end)
        localiser = self._load()
        print(f"{show_path(clip)}  {footage.describe()}", flush=True)
        with Bar("localising", footage.count(localiser.analysis_fps(footage))) as bar:
            result = localiser.localise_footage(footage, bar.update)
        with Bar("writing", footage.count(footage.own_fps) if "mp4" in self.formats else 0) as bar:
            files = result.save(folder, self.formats, options.overwrite, bar.update)
        print_sources(result)
        print_written(folder, files)
        self.done += 1

    def _load(self) -> Localiser:
        if self._localiser is None:
            from soundwhere.inference.localiser import Localiser
            from soundwhere.models.registry import DEFAULT

            options = self.options
            self._localiser = Localiser(
                options.model or DEFAULT,
                options.device,
                options.fps,
                options.hop_s,
                squash=options.squash,
                smooth=options.smooth,
            )
        return self._localiser


def _find(names: tuple[str, ...]) -> tuple[list[Path], list[SoundwhereError]]:
    """The clips that are meant, each once, and what is wrong with names that mean none."""
    clips: dict[Path, None] = {}
    failures: list[SoundwhereError] = []
    for name in names:
        found = list(_expand(name))
        clips.update(dict.fromkeys(found))
        if not found:
            what = "holds no video" if Path(name).is_dir() else "matches no file"
            failures.append(
                MediaError(f"{name} {what}.", "Give a video, a folder with videos, or a pattern that fits.")
            )
    return list(clips), failures


def _expand(name: str) -> Iterator[Path]:
    """The files a name stands for: itself, the videos below a folder, or what a pattern matches."""
    from soundwhere.data.folder import VIDEO_SUFFIXES

    path = Path(name)
    if path.is_dir():
        files = (file for file in sorted(path.rglob("*")) if file.suffix.lower() in VIDEO_SUFFIXES and file.is_file())
        for file in files:
            inside = file.relative_to(path).parts
            if not any(part.startswith(".") or part.endswith(".soundwhere") for part in inside):
                yield file
    elif not path.exists() and glob.has_magic(name):
        yield from (Path(match) for match in sorted(glob.glob(name, recursive=True)) if Path(match).is_file())  # noqa: PTH207 - absolute patterns too
    else:
        yield path  # a missing file is reported when it is opened
