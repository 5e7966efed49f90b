"""Run the command line with clocks inside: `python -P clocked.py CLOCKS.json ARGUMENT ...`.

`soundwhere bench command` starts it as a process of its own. CPU seconds go to the part whose function a thread is in,
imports within it excepted. What other threads of libraries compute (decoders, encoders) belongs to no function: it is
what remains.
"""

from __future__ import annotations

import builtins
import json
import runpy
import sys
import threading
import time
from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# Functions whose time is a part, by module
_PARTS = {
    "soundwhere.inference.localiser": {"load": "open", "Localiser._hear": "network", "Localiser._forward": "network"},
    "soundwhere.inference.graphs": {"_weights": "open", "_opened": "open"},
    "soundwhere.inference.overlays": {"_drawn": "draw"},
}
_START = time.monotonic(), time.process_time()

_seconds: dict[str, float] = defaultdict(float)
_phases: dict[str, tuple[float, float]] = {}
_own = threading.local()
_lock = threading.Lock()
_waiting = dict(_PARTS)


def _timed(part: str, work: Callable[..., Any]) -> Callable[..., Any]:
    """The same work, whose CPU seconds of its own thread, less those of parts within, are added to a part."""

    def timed(*args: Any, **keywords: Any) -> Any:
        stack = vars(_own).setdefault("stack", [])
        stack.append(0.0)
        began = time.thread_time()
        try:
            return work(*args, **keywords)
        finally:
            passed = time.thread_time() - began
            within = stack.pop()
            if stack:
                stack[-1] += passed
            with _lock:
                _seconds[part] += passed - within

    return timed


def _reached(phase: str) -> None:
    """Note wall and CPU seconds since the start, the first time that a phase is over."""
    _phases.setdefault(phase, (time.monotonic() - _START[0], time.process_time() - _START[1]))


def _import(name: str, *rest: Any, **keywords: Any) -> Any:
    """Import as ever, as a part; then put clocks into what has arrived."""
    nested, _own.importing = vars(_own).get("importing", False), True
    try:
        module = _timed_import(name, *rest, **keywords)
    finally:
        _own.importing = nested
    if _waiting and not vars(_own).get("importing"):  # all of it is there
        for place in [place for place in _waiting if place in sys.modules]:
            for path, part in _waiting.pop(place).items():
                _replace(sys.modules[place], path, partial(_timed, part))
            if place.endswith("localiser"):
                _replace(sys.modules[place], "Localiser._answers", _answers)
    return module


def _replace(owner: Any, path: str, change: Callable[[Any], Any]) -> None:
    *classes, name = path.split(".")
    for each in classes:
        owner = getattr(owner, each)
    if hasattr(owner, name):
        setattr(owner, name, change(getattr(owner, name)))


def _answers(work: Callable[..., Any]) -> Callable[..., Iterator[Any]]:
    def noted(*args: Any, **keywords: Any) -> Iterator[Any]:
        for answer in work(*args, **keywords):
            _reached("first answer")
            yield answer

    return noted


_plain_import = builtins.__import__
_timed_import = _timed("import", _plain_import)


def main(target: str, arguments: list[str]) -> int:
    """Run a command and write what the clocks say."""
    builtins.__import__ = _import
    sys.argv = ["soundwhere", *arguments]
    code: Any = 0
    try:
        runpy.run_module("soundwhere", run_name="__main__")
    except SystemExit as end:
        code = end.code
        _reached("done")
    finally:
        builtins.__import__ = _plain_import
    with open(target, "w", encoding="utf-8") as file:  # noqa: PTH123 - before any import
        json.dump({"parts": _seconds, "phases": _phases}, file)
    return int(code or 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
