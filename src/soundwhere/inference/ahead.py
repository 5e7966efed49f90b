"""Work done in other threads, in the same order: ahead of time, or several items at once."""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from queue import Full, Queue
from threading import Event, Thread
from typing import TYPE_CHECKING, TypeVar

from soundwhere import cores

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable

T = TypeVar("T")
R = TypeVar("R")
_MOST = 4  # items in hand at once: each needs memory
_PATIENCE_S = 0.1  # after which a waiting thread looks whether it is still wanted


def ahead(items: Generator[T, None, None], depth: int = 2) -> Generator[T, None, None]:
    """The same items in the same order, made by another thread, at most `depth` of them before they are asked for.

    An exception of `items` is raised where its item would have been. The thread ends with the iterator: after the last
    item, when it is closed, or when it is forgotten.
    """
    queue: Queue[tuple[T] | BaseException | None] = Queue(depth)
    unwanted = Event()
    thread = Thread(target=_make, args=(items, queue, unwanted), daemon=True)
    thread.start()
    try:
        while (made := queue.get()) is not None:
            if isinstance(made, BaseException):
                raise made
            yield made[0]
    finally:
        unwanted.set()
        thread.join()


def _make(items: Generator[T, None, None], queue: Queue[tuple[T] | BaseException | None], unwanted: Event) -> None:
    """Put every item into a queue, then None or the error that came instead."""

    def put(made: tuple[T] | BaseException | None) -> None:
        while not unwanted.is_set():
            with suppress(Full):
                queue.put(made, timeout=_PATIENCE_S)
                return

    try:
        for item in items:
            put((item,))
            if unwanted.is_set():
                break
        items.close()  # files are closed by the thread that read them
    except BaseException as error:  # raised again where the item is awaited
        put(error)
    else:
        put(None)


def at_once() -> int:
    """How many items this process works on at once, each on its share of the processors."""
    return min(_MOST, cores.cores())


def spread(work: Callable[[T], R], items: Iterable[T], workers: int) -> Generator[R, None, None]:
    """What some work makes of items, in their order, with so many of them in hand at once and one more waiting.

    Each worker is a thread that has its share of the processors: several finish several items sooner than they finish
    one together, because none has to wait for another within it.
    """
    threads = cores.torch_threads()
    pool = ThreadPoolExecutor(workers, initializer=cores.settle, initargs=(max(1, threads // workers),))
    begun: deque[Future[R]] = deque()
    try:
        for item in items:
            begun.append(pool.submit(work, item))
            if len(begun) > workers:
                yield begun.popleft().result()
        while begun:
            yield begun.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)
        cores.settle(threads)  # of threads to come: this one never lost its own
