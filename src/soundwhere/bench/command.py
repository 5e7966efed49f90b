"""What people wait for: commands from a cold start to their last file, in processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

from soundwhere.errors import ConfigError, SoundwhereError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

CLOCKED: Final = Path(__file__).with_name("clocked.py")
PARTS: Final = ("import", "open", "network", "draw", "media")
_FEW: Final = 4  # scenes of the run whose time is that of starting up


@dataclass(frozen=True)
class CommandTime:
    """What one run of the command took.

    Attributes:
        wall_s: Seconds from its start to its end.
        cpu_s: Seconds of all its threads, the system's included.
        first_s: Seconds until the first analysed frame was answered.
        parts_s: CPU seconds by part; `media` is what remains: decoding, shrinking, sound, encoding, the page.
    """

    wall_s: float
    cpu_s: float
    first_s: float
    parts_s: dict[str, float]


@dataclass(frozen=True)
class EvaluateTime:
    """What scoring some scenes took, without starting up.

    Attributes:
        scenes: How many.
        wall_s: Seconds that passed.
        cpu_s: Seconds of all threads, the system's included.
        start_s: CPU seconds of starting up.
    """

    scenes: int
    wall_s: float
    cpu_s: float
    start_s: float


def run_process(arguments: Sequence[str], environment: Mapping[str, str] | None = None) -> tuple[float, float]:
    """Run Python with arguments to its end; wall and CPU seconds.

    Raises:
        SoundwhereError: It failed.
    """
    before, start = os.times(), time.perf_counter()
    command, changed = [sys.executable, *arguments], {**os.environ, **(environment or {})}
    done = subprocess.run(command, env=changed, capture_output=True, text=True, check=False)
    wall_s, after = time.perf_counter() - start, os.times()
    if done.returncode:
        raise SoundwhereError(f"The command failed: {done.stderr.strip()[-500:]}", "Try it by itself.")
    return wall_s, after.children_user + after.children_system - before.children_user - before.children_system


def time_command(arguments: Sequence[str], environment: Mapping[str, str] | None = None) -> CommandTime:
    """Run `soundwhere` with arguments that localise one clip.

    Args:
        arguments: Of the command.
        environment: Changes to the environment, such as a PYTHONPATH with another version of the package.

    Raises:
        SoundwhereError: The command failed.
    """
    with TemporaryDirectory() as folder:
        clocks = Path(folder) / "clocks.json"
        wall_s, cpu_s = run_process(["-P", str(CLOCKED), str(clocks), *arguments], environment)
        said = json.loads(clocks.read_text(encoding="utf-8"))
    phases, parts = said["phases"], said["parts"]
    parts["media"] = max(0.0, phases["done"][1] - sum(parts.get(part, 0.0) for part in PARTS[:-1]))
    return CommandTime(wall_s, cpu_s, phases["first answer"][0], {part: parts.get(part, 0.0) for part in PARTS})


def bench_command(
    clip: Path | None,
    runtimes: Mapping[str, Sequence[str]],
    seconds: float,
    turns: int,
    environment: Mapping[str, str] | None = None,
) -> list[dict[str, Any]]:
    """Measure and print: json alone and what people get who ask for nothing, overlay and page too, for each runtime.

    Args:
        clip: A video; without it, one of 1280 x 720 pixels is written.
        runtimes: By name, the options that choose each.
        seconds: Length of the clip that is written.
        turns: Runs of each; the one with the least CPU seconds counts.
        environment: See `time_command`.

    Returns:
        A row for each line, as JSON values.
    """
    rows: list[dict[str, Any]] = []
    with TemporaryDirectory() as made:
        folder = Path(made)
        if clip is None:
            from soundwhere.bench.localising import write_clip

            clip = folder / "clip.mp4"
            write_clip(clip, seconds)
        columns = ("wall", "first", "CPU", *PARTS)
        print(f"{'seconds':<20}" + "".join(f"{column:>9}" for column in columns))
        for name, chosen in runtimes.items():
            for what, formats in (("json", ["--formats", "json"]), ("overlay", [])):
                runs = []
                for turn in range(turns):
                    out = folder / f"{name}-{what}-{turn}"
                    arguments = ["localise", str(clip), "--out", str(out), *formats, *chosen]
                    runs.append(time_command(arguments, environment))
                best = min(runs, key=lambda run: run.cpu_s)
                figures = (best.wall_s, best.first_s, best.cpu_s, *best.parts_s.values())
                print(f"{f'{name}, {what}':<20}" + "".join(f"{figure:>9.2f}" for figure in figures), flush=True)
                rows.append({"run": f"{name}, {what}", **asdict(best)})
    print("wall: start to end; first: start to first answer; the others are CPU seconds; media: decode, shrink, encode")
    return rows


def bench_evaluate(arguments: Sequence[str], scenes: int, environment: Mapping[str, str] | None = None) -> EvaluateTime:
    """Evaluate a few scenes, then more, and take the difference.

    Args:
        arguments: Of `soundwhere evaluate`: benchmark, models and their options.
        scenes: How many scenes more.
        environment: Changes to the environment, such as a PYTHONPATH with another version of the package.

    Raises:
        SoundwhereError: The command failed.
    """
    times = []
    with TemporaryDirectory() as folder:
        for limit in (_FEW, _FEW + scenes):
            options = ["--no-page", "--limit", str(limit), "--out", str(Path(folder) / str(limit))]
            times.append(run_process(["-m", "soundwhere", "evaluate", *arguments, *options], environment))
    (few_s, few_cpu_s), (wall_s, cpu_s) = times
    return EvaluateTime(scenes, wall_s - few_s, cpu_s - few_cpu_s, few_cpu_s)


def versions(against: Path | None) -> dict[str, dict[str, str]]:
    """What is measured, by name: another version, if its src is given, and this one; and what lets Python find it."""
    if against is None:
        return {"this version": {}}
    if not (against / "soundwhere" / "__init__.py").is_file():
        raise ConfigError(
            f"{against} does not hold the package.", "Give the src folder of a checkout, such as a worktree's."
        )
    return {str(against): {"PYTHONPATH": str(against.absolute())}, "this version": {}}
