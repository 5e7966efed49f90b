"""`soundwhere clip.mp4`: where each sound of a video comes from."""
# ruff: noqa: UP045 - see `terminal.options`

from __future__ import annotations

import glob
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, Optional

import tyro

from soundwhere import cores
from soundwhere.errors import ConfigError, MediaError, SoundwhereError
from soundwhere.inference.formats import DEFAULT_FORMATS, FILES, parse_formats
from soundwhere.terminal.batch import ClipRunner, Outcome, Task, failed
from soundwhere.terminal.messages import say, show_path
from soundwhere.terminal.options import FLAG, MANY, NONE, LocaliserOptions, Names, check_workers, named, parse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from soundwhere.inference.localiser import Localiser
    from soundwhere.inference.pool import Died, Tell

DESCRIPTION = """\
Show where each sound of a video comes from.

A clip whose result is finished (its folder holds result.json) is skipped unless --overwrite is given.

Examples:
  soundwhere clip.mp4                         overlay video, page and JSON in clip.soundwhere/
  soundwhere films/ 'more/*.mov' --out found  every video below a folder and of a pattern, into found/
  soundwhere photo.jpg --audio sound.wav      a photo with a recording
  soundwhere films/ --workers 4               four clips at once
  soundwhere films/ --on ray                  on a ray cluster
  soundwhere clip.mp4 --start 60 --end 90 --formats json,coco,npz
"""


@dataclass(frozen=True)
class Options(LocaliserOptions):
    """Show where each sound of a video comes from.

    A clip whose result is finished (its folder holds result.json) is skipped unless --overwrite is given.
    """

    files: Annotated[Names, tyro.conf.Positional, MANY, named("CLIP ...")] = NONE
    """Videos, folders of videos, patterns; photos with --audio."""
    out: Annotated[Optional[Path], named("DIR")] = None
    """Folder in which NAME.soundwhere/ is written for every clip; by default beside the clip."""
    audio: Annotated[Optional[Path], named("FILE")] = None
    """Take the sound from this file."""
    formats: Annotated[str, tyro.conf.arg(metavar="FORMAT,...")] = ",".join(DEFAULT_FORMATS)
    """Any of mp4,png,json,csv,npz,coco,html; json is always written."""
    hop_s: float = 0.5
    """Seconds between windows of sound."""
    start: Annotated[float, tyro.conf.arg(metavar="SECOND")] = 0.0
    """Second to begin at."""
    end: Annotated[Optional[float], named("SECOND")] = None
    """Second to end at."""
    squash: Annotated[bool, *FLAG] = False
    """Squash frames to squares, as the paper does, instead of keeping their shape."""
    smooth: Annotated[bool, *FLAG] = True
    """Show every map as it is instead of averaging lightly over time."""
    workers: Annotated[Optional[int], named("N")] = None
    """Clips to work on at once, each in its own process; by default 1, on ray as many as it has processors."""
    on: Literal["local", "ray"] = "local"
    """This machine, or a ray cluster: that of RAY_ADDRESS, else one that is started here."""
    overwrite: Annotated[bool, *FLAG] = False
    """Localise clips again whose result is finished."""
    skip_done: Annotated[bool, *FLAG] = False
    """Skip clips whose result is finished, which is what happens unless --overwrite is given."""


def run(arguments: list[str]) -> int:
    """Localise every clip; one that fails is reported at the end, the others are done."""
    options = parse(Options, arguments, "localise", description=DESCRIPTION)
    formats = parse_formats(options.formats)
    if not options.files:
        raise ConfigError("No file was given.", "For example: soundwhere clip.mp4. More: soundwhere localise --help")
    check_workers(options.workers)
    if options.overwrite and options.skip_done:
        raise ConfigError("--overwrite and --skip-done contradict each other.", "Give one of them.")
    clips, outcomes = _find(options.files)
    if options.audio is not None and len(clips) > 1:
        raise ConfigError(f"One recording cannot go with {len(clips)} clips.", "Give one clip with --audio.")
    alone = len(clips) + len(outcomes) == 1
    tasks: list[Task] = []
    claimed: dict[Path, Path] = {}
    for clip in clips:
        planned = _plan(clip, options, formats, claimed)
        if isinstance(planned, Task):
            tasks.append(planned)
        else:
            _tell(planned, outcomes, alone)
    for outcome in _work(tasks, options, alone):
        _tell(outcome, outcomes, alone)
    failures = [outcome for outcome in outcomes if outcome.state == "failed"]
    if not alone:
        from soundwhere.terminal.results import print_summary

        places = {str(clip): place for place, clip in enumerate(clips)}  # several processes finish in any order
        print_summary(sorted(outcomes, key=lambda outcome: places.get(outcome.clip, -1)))
    elif failures:
        raise SoundwhereError(failures[0].words, failures[0].remedy)
    if not failures:
        return 0
    say("failed:\n" + "\n".join(f"  {line}" for o in failures for line in f"{o.words}\n{o.remedy}".splitlines()))
    return 2 if len(failures) == len(outcomes) else 1


def _plan(clip: Path, options: Options, formats: tuple[str, ...], claimed: dict[Path, Path]) -> Task | Outcome:
    """What is to be done with a clip, if anything; `claimed` says which clip a folder belongs to, and is added to."""
    from soundwhere.inference.folder import check_target, is_finished, result_folder, result_of

    folder = result_folder(clip, options.out)
    try:
        other = claimed.setdefault(folder.absolute(), clip)
        if other is not clip:
            raise ConfigError(f"{clip} and {other} would both be written to {folder}.", "Give each its own --out.")
        if is_finished(folder) and not options.overwrite:
            if (name := result_of(folder)) not in (None, clip.name):
                raise ConfigError(f"{folder} holds the result of {name}, not of {clip}.", f"Give {clip} its own --out.")
            lacking = [name for name in formats if not (folder / FILES[name]).exists()]
            without = f" without {','.join(lacking)}" if lacking else ""
            return Outcome(str(clip), "skipped", f"{folder} is finished{without} (--overwrite does it again)")
        check_target(folder, options.overwrite)
    except SoundwhereError as error:
        return failed(clip, error)
    return Task(clip, folder, options.audio, options.start, options.end, formats, options.overwrite)


def _work(tasks: list[Task], options: Options, alone: bool) -> Iterator[Outcome]:
    """Do the tasks, here or in several processes."""
    load = partial(_load, options)
    if alone:  # a defect may then show its traceback
        yield from map(ClipRunner(load, early=_opens_aside(options)).do, tasks)
    elif (options.on == "local" and (options.workers or 1) == 1) or len(tasks) <= 1:
        yield from map(ClipRunner(load).attempt, tasks)
    else:
        from soundwhere.inference.pool import Died, work_on
        from soundwhere.terminal.progress import Bar

        workers = min(options.workers or len(tasks), len(tasks))
        share = 1 if options.on == "ray" else max(1, cores.allowed() // workers)
        with Bar("localising", len(tasks), "clips") as bar:
            answers = work_on(options.on, tasks, partial(_one_of_several, options, share), options.workers)
            for number, (task, answer) in enumerate(answers, 1):
                bar.update(number, len(tasks))
                yield _died(task.clip, answer) if isinstance(answer, Died) else answer


def _one_of_several(options: Options, threads: int, _: Tell) -> Callable[[Task], Outcome]:
    """What each of several processes works with: a model, and its share of the processors."""
    cores.limit(threads)
    localiser = _load(options)
    return ClipRunner(lambda: localiser, talk=False).attempt


def _died(clip: Path, died: Died) -> Outcome:
    remedy = "There may not be enough memory: use fewer --workers, or try this clip alone."
    return Outcome(str(clip), "failed", f"{clip}: the process that worked on it ended with {died.code}.", remedy)


def _tell(outcome: Outcome, outcomes: list[Outcome], alone: bool) -> None:
    """Keep an outcome, and say at once what has not been said."""
    outcomes.append(outcome)
    clip, words = show_path(outcome.clip), show_path(outcome.words)
    if outcome.state == "skipped":
        print(f"{clip}  skipped: {words}")
    elif outcome.state == "failed" and not alone:
        say(f"soundwhere: {words}")


def _opens_aside(options: Options) -> bool:
    from soundwhere.inference.runtimes import opens_aside
    from soundwhere.methods.files import DEFAULT

    return opens_aside(options.model or DEFAULT, options.runtime, options.device)


def _load(options: Options) -> Localiser:
    from soundwhere.inference.localiser import Localiser

    return Localiser(**options.localiser(), hop_s=options.hop_s, squash=options.squash, smooth=options.smooth)


def _find(names: tuple[str, ...]) -> tuple[list[Path], list[Outcome]]:
    """The clips that are meant, each once, and what is wrong with names that mean none."""
    clips: dict[Path, None] = {}
    failures: list[Outcome] = []
    for name in names:
        found = list(_expand(name))
        clips.update(dict.fromkeys(found))
        if not found:
            what = "holds no video" if Path(name).is_dir() else "matches no file"
            remedy = "Give a video, a folder with videos, or a pattern that fits."
            failures.append(failed(name, MediaError(f"{name} {what}.", remedy)))
    return list(clips), failures


def _expand(name: str) -> Iterator[Path]:
    """The files a name stands for: itself, the videos below a folder, or what a pattern matches."""
    from soundwhere.inference.folder import videos_below

    path = Path(name)
    if path.is_dir():
        yield from videos_below(path)
    elif not path.exists() and glob.has_magic(name):
        yield from (Path(match) for match in sorted(glob.glob(name, recursive=True)) if Path(match).is_file())  # noqa: PTH207 - absolute patterns too
    else:
        yield path  # a missing file is reported when it is opened
