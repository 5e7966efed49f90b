"""Processes that work on items: one that dies costs the item it had, and each can be ended at any moment.

`work_on` has them do the work, or a ray cluster. Both give every item's answer as it comes.

A process is made from a function `make(tell)`, called once in it, that returns what is called with one item after the
other and returns its answer. `tell` sends news before the answer, such as progress. The function, items, news and
answers travel by pickle.
"""

from __future__ import annotations

import multiprocessing
import signal
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import wait
from threading import Lock
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, cast

from soundwhere import cores
from soundwhere.errors import SoundwhereError
from soundwhere.signals import ctrl_c_blocked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from multiprocessing.connection import Connection

    Pipe = Connection[Any, Any]
    Tell = Callable[[Any], None]

Item = TypeVar("Item")
Answer = TypeVar("Answer")
Engine = Literal["local", "ray"]

_PATIENCE_S = 15.0  # for a process to remove its partial files after it was told to end


@dataclass(frozen=True)
class Told:
    """News of a process that is still working."""

    news: Any


@dataclass(frozen=True)
class Died:
    """Instead of an answer: the process ended, with this code (minus the signal's number)."""

    code: int | None


@dataclass(frozen=True)
class _Useless:
    """Instead of an answer: the work cannot begin, for any item at all."""

    message: str
    remedy: str


class Worker(Generic[Item, Answer]):
    """A process that answers one item after the other. `end` and `alive` may be asked for from any thread.

    Args:
        make: Makes what answers items, in the process.

    Attributes:
        pipe: Where news and answers come in, for `multiprocessing.connection.wait`.

    Raises:
        SoundwhereError: There is no room for another process.
    """

    def __init__(self, make: Callable[[Tell], Callable[[Item], Answer]]) -> None:
        context = multiprocessing.get_context("spawn")  # a fork would share what torch and FFmpeg do not want shared
        self._reaping = Lock()
        try:
            self.pipe, theirs = context.Pipe()
            self._process = context.Process(target=_work, args=(theirs, make), daemon=True)
            with ctrl_c_blocked():
                self._process.start()
        except OSError as error:
            remedy = "Close other programs, then try again."
            raise SoundwhereError(f"No further process can be started: {error.strerror}.", remedy) from error
        theirs.close()

    @property
    def alive(self) -> bool:
        """Whether it can be given an item."""
        with self._reaping:
            return self._process.is_alive()

    def give(self, item: Item) -> None:
        """Give it an item to work on. That it has ended meanwhile is heard, not raised."""
        with suppress(OSError):
            self.pipe.send(item)

    def hear(self) -> Told | Died | Answer:
        """Wait for what it has to say next.

        Raises:
            SoundwhereError: `make` raised one.
        """
        try:
            heard = self.pipe.recv()
        except (EOFError, OSError):
            return Died(self._reap())
        if isinstance(heard, _Useless):
            raise SoundwhereError(heard.message, heard.remedy)
        return cast("Told | Answer", heard)

    def dismiss(self) -> None:
        """Let it end when it has nothing to do; it is not waited for."""
        self.pipe.close()

    def ask_to_end(self) -> None:
        """Interrupt it; it removes its partial files and ends."""
        with self._reaping:
            self._process.terminate()

    def end(self) -> None:
        """Interrupt it and wait until it has ended."""
        self.ask_to_end()
        self._reap()

    def _reap(self) -> int | None:
        """Wait until it has ended, not forever; its exit code."""
        with self._reaping:
            self._process.join(_PATIENCE_S)
            if self._process.is_alive():
                self._process.kill()
                self._process.join()
            return self._process.exitcode


def work_on(
    engine: Engine,
    items: Sequence[Item],
    make: Callable[[Tell], Callable[[Item], Answer]],
    workers: int | None,
    news: Callable[[Any], None] | None = None,
) -> Iterator[tuple[Item, Answer | Died]]:
    """Work through items.

    Args:
        engine: `local` processes, or `ray`.
        items: What there is to do.
        make: Makes what answers items, in each process.
        workers: How many at once; None is one for each processor, of this machine or of the cluster.
        news: Called with what local processes tell before they answer.

    Raises:
        SoundwhereError: `make` raised one, no process can be started, or the cluster cannot be reached or was lost.
    """
    if engine == "ray":
        from soundwhere.inference.ray_pool import work_through_on_ray

        yield from work_through_on_ray(items, make, workers)
    else:
        yield from work_through(items, make, workers or cores.allowed(), news)


def work_through(
    items: Sequence[Item],
    make: Callable[[Tell], Callable[[Item], Answer]],
    workers: int,
    news: Callable[[Any], None] | None = None,
) -> Iterator[tuple[Item, Answer | Died]]:
    """Work through items in several processes.

    Args:
        items: What there is to do.
        make: Makes what answers items, in each process.
        workers: How many processes.
        news: Called with what processes tell before they answer.

    Yields:
        Each item with its answer, as they come.

    Raises:
        SoundwhereError: `make` raised one, or no process can be started.
    """
    todo = deque(items)
    busy: dict[Pipe, tuple[Worker[Item, Answer], Item]] = {}
    try:
        while busy or todo:
            while todo and len(busy) < workers:
                worker = Worker(make)
                busy[worker.pipe] = worker, todo.popleft()
                worker.give(busy[worker.pipe][1])
            for pipe in cast("list[Pipe]", wait(list(busy))):
                worker, item = busy[pipe]
                heard = worker.hear()
                if isinstance(heard, Told):
                    if news is not None:
                        news(heard.news)
                    continue
                if todo and not isinstance(heard, Died):
                    busy[pipe] = worker, todo.popleft()
                    worker.give(busy[pipe][1])
                else:
                    del busy[pipe]
                    worker.dismiss()
                yield item, heard
    finally:
        for worker, _ in busy.values():
            worker.ask_to_end()
        for worker, _ in busy.values():
            worker.end()


def _work(pipe: Pipe, make: Callable[[Tell], Callable[[Any], Any]]) -> None:
    """What a process does: answer items until there are no more, or until it is told to end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches every process: the first one tells the others
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    signal.signal(signal.SIGTERM, _interrupt)
    with suppress(KeyboardInterrupt):
        with suppress(EOFError, BrokenPipeError, ConnectionResetError):
            _answer(pipe, make)
        signal.signal(signal.SIGTERM, _pass_over)  # which the first process sends to all when it ends


def _answer(pipe: Pipe, make: Callable[[Tell], Callable[[Any], Any]]) -> None:
    try:
        answer = make(lambda news: pipe.send(Told(news)))
    except SoundwhereError as error:
        pipe.send(_Useless(error.message, error.remedy))
        return
    while True:
        pipe.send(answer(pipe.recv()))


def _interrupt(number: int, _frame: object) -> None:
    signal.signal(number, _pass_over)  # once is enough: what follows is cleaning up
    raise KeyboardInterrupt


def _pass_over(_number: int, _frame: object) -> None:
    """Ignore a signal; Python complains of one that comes while SIG_IGN takes the place of a handler."""
