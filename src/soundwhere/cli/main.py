"""The entry point: finds the sub-command, runs it, and turns errors into messages and exit codes.

Exit codes: 0 all done, 1 some files of a batch failed, 2 bad input or usage, 130 interrupted.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
import traceback
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from soundwhere import __version__, cores
from soundwhere.errors import ConfigError, SoundwhereError
from soundwhere.terminal.messages import nearest_command

if TYPE_CHECKING:
    from types import FrameType

COMMANDS = {
    "localise": "show where each sound of a video comes from (the default: `soundwhere clip.mp4`)",
    "demo": "render a made-up clip and localise its two sounds",
    "prepare": "turn a collection of videos into shards to train from",
    "train": "train a model: stage 1, stage 2, or both",
    "evaluate": "score a model beside the answers that need neither eyes nor ears",
    "analyse": "study: convergence, protocols, ablation, stage-one, collections, compare, calibration, motion, theory",
    "reproduce": "every table and figure of the paper again, on one page with verdicts",
    "serve": "a local page: drop a clip, watch, play it with its heat",
    "live": "a local page: camera and microphone, heat as it happens",
    "annotate": "turn boxes into masks in the browser, alone or as a team",
    "benchmark": "build a mask benchmark: init, propose, export, verify, stats; or one of ours again: build",
    "export": "write a model as an ONNX file for other programs",
    "world": "write scenes and videos of the made-up world",
    "bench": "measure something on this machine",
    "doctor": "print versions, devices, weights, and what to do about what is missing",
}

_COMPUTING = frozenset({"train", "evaluate", "analyse", "reproduce"})  # until they end, with the machine for themselves
# Given again after an interruption, they leave out what is done
_GO_ON = frozenset({"prepare", "evaluate", "reproduce", "benchmark build"}) | {
    f"analyse {name}" for name in ("compare", "ablation", "stage-one", "collections")
}
HELP = f"""\
soundwhere {__version__}: where in the picture does each sound come from?

usage: soundwhere CLIP [CLIP ...] [options]
       soundwhere COMMAND [options]

commands:
{chr(10).join(f"  {name:<10} {what}" for name, what in COMMANDS.items())}

examples:
  soundwhere clip.mp4                          overlay video, page and JSON in clip.soundwhere/
  soundwhere photo.jpg --audio sound.wav       a still picture with a separate recording
  soundwhere train --config configs/made-up-world.toml --out runs/first
  soundwhere COMMAND --help                    options and examples of one command

options:
  --help, --version
  --debug                                      show the traceback of an error
"""


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit."""
    sys.exit(run(sys.argv[1:] if arguments is None else arguments))


def run(arguments: list[str]) -> int:
    """Run a command and return its exit code."""
    debug = "--debug" in arguments
    arguments = [argument for argument in arguments if argument != "--debug"]
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(HELP)
        return 0
    if arguments[0] in ("-V", "--version"):
        print(f"soundwhere {__version__}")
        return 0
    warnings.formatwarning = lambda message, *_: f"soundwhere: {message}\n"
    previous = signal.signal(signal.SIGTERM, _interrupt)
    try:
        name, rest = _command(arguments)
        if name != "train":  # which has the machine for itself
            cores.wait_politely()
        if name in _COMPUTING:
            cores.keep_memory()
        code = importlib.import_module(f"soundwhere.cli.{name}").run(rest)
        sys.stdout.flush()
        return int(code)
    except SoundwhereError as error:
        return _complain(str(error), 2, debug)
    except KeyboardInterrupt:
        more = ", and the same command goes on" if {arguments[0], " ".join(arguments[:2])} & _GO_ON else ""
        return _complain(f"interrupted; finished files are kept{more}.", 130, debug)
    except BrokenPipeError:  # the reader of our output went away, as `| head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        if isinstance(error, OSError) and error.filename:  # a file that cannot be what it is taken for, or vanished
            return _complain(f"{error.filename} cannot be used: {error.strerror}.\nGive another path.", 2, debug)
        message = f"internal error: {type(error).__name__}: {error}\nThis is a defect: please report it with --debug."
        return _complain(message, 2, debug)
    finally:
        signal.signal(signal.SIGTERM, previous)


def _command(arguments: list[str]) -> tuple[str, list[str]]:
    """The command and what follows it; whatever looks like a file is to be localised."""
    first = arguments[0]
    if first in COMMANDS:
        return first, arguments[1:]
    if first.startswith("-") or Path(first).suffix or os.sep in first or Path(first).exists():
        return "localise", arguments
    raise ConfigError(f"There is no command {first!r}, and no file of that name.", nearest_command(first, COMMANDS))


def _complain(message: str, code: int, debug: bool) -> int:
    if debug:
        traceback.print_exc()
    print(f"soundwhere: {message}", file=sys.stderr)
    return code


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    """SIGTERM ends a command the way Ctrl-C does: partial files are removed."""
    raise KeyboardInterrupt
