"""Several processes that work through a list: one that dies costs the item it had, an interruption ends them all."""

from __future__ import annotations

import multiprocessing
import signal
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import wait
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from soundwhere.errors import SoundwhereError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from multiprocessing.connection import Connection
    from multiprocessing.process import BaseProcess

    Pipe = Connection[Any, Any]

Item = TypeVar("Item")
Answer = TypeVar("Answer")

_PATIENCE_S = 15.0  # for a process to remove its partial files after it was told to end


@dataclass(frozen=True)
class Died:
    """Instead of an answer: the process that worked on the item ended, with this code (minus the signal's number)."""

    code: int | None


@dataclass(frozen=True)
class _Useless:
    """Instead of an answer: the work cannot begin, for no item at all."""

    message: str
    remedy: str


@dataclass
class _Hand(Generic[Item]):
    process: BaseProcess
    item: Item


def work_through(
    items: Sequence[Item], make: Callable[[], Callable[[Item], Answer]], workers: int
) -> Iterator[tuple[Item, Answer | Died]]:
    """Work through items in several processes.

    Args:
        items: What there is to do.
        make: Called once in each process; what it returns is called with one item after the other. Both, and all
            that goes in and comes out, travel by pickle.
        workers: How many processes.

    Yields:
        Each item with its answer, as they come.

    Raises:
        SoundwhereError: `make` raised one.
    """
    todo = deque(items)
    hands: dict[Pipe, _Hand[Item]] = {}
    try:
        while hands or todo:
            while todo and len(hands) < workers:
                pipe, process = _start(make)
                hands[pipe] = _Hand(process, todo.popleft())
                _send(pipe, hands[pipe].item)
            for pipe in cast("list[Pipe]", wait(list(hands))):
                hand = hands[pipe]
                answer = _receive(pipe, hand.process)
                if isinstance(answer, _Useless):
                    raise SoundwhereError(answer.message, answer.remedy)
                done = hand.item
                if todo and not isinstance(answer, Died):
                    hand.item = todo.popleft()
                    _send(pipe, hand.item)
                else:
                    del hands[pipe]
                    pipe.close()  # which ends a process that still lives
                yield done, answer
    finally:
        _end([hand.process for hand in hands.values()])


def _start(make: Callable[[], Callable[[Any], Any]]) -> tuple[Pipe, BaseProcess]:
    context = multiprocessing.get_context("spawn")  # a fork would share what torch and FFmpeg do not want shared
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs, make), daemon=True)
    process.start()
    theirs.close()
    return ours, process


def _send(pipe: Pipe, item: Any) -> None:
    with suppress(OSError):  # a process that has died is noticed when its answer does not come
        pipe.send(item)


def _receive(pipe: Pipe, process: BaseProcess) -> Any:
    try:
        return pipe.recv()
    except (EOFError, OSError):
        process.join(_PATIENCE_S)
        return Died(process.exitcode)


def _end(processes: list[BaseProcess]) -> None:
    for process in processes:
        process.terminate()
    for process in processes:
        process.join(_PATIENCE_S)
        if process.is_alive():
            process.kill()


def _serve(pipe: Pipe, make: Callable[[], Callable[[Any], Any]]) -> None:
    """What a process does: answer items until there are no more, or until it is told to end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches every process: the first one tells the others
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        try:
            work = make()
        except SoundwhereError as error:
            pipe.send(_Useless(error.message, error.remedy))
            return
        while True:
            pipe.send(work(pipe.recv()))
    except (KeyboardInterrupt, EOFError, BrokenPipeError, ConnectionResetError):
        return


def _interrupt(number: int, _frame: object) -> None:
    signal.signal(number, signal.SIG_IGN)  # once is enough: what follows is cleaning up
    raise KeyboardInterrupt
