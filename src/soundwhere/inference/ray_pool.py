"""The same as `pool.work_through` on a ray cluster: that of RAY_ADDRESS, or one that is started here.

An actor for each worker answers items one after the other; one that dies, with its machine or alone, costs the item it
had. ray ends whoever drives it when its head is lost, so a process of its own does that, and we are told.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from collections import deque
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from soundwhere.errors import SoundwhereError, needing
from soundwhere.inference.pool import Died, Told, Worker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from soundwhere.inference.pool import Tell

_PATIENCE_S = 15.0  # for the driver to end, and for a cluster to answer
_STARTS = 3

Item = TypeVar("Item")
Answer = TypeVar("Answer")


def work_through_on_ray(
    items: Sequence[Item], make: Callable[[Tell], Callable[[Item], Answer]], workers: int | None
) -> Iterator[tuple[Item, Answer | Died]]:
    """Work through items on a cluster; news is not passed on.

    Args:
        items: What there is to do.
        make: Makes what answers items, in each actor.
        workers: How many actors, each with a processor; None for as many as the cluster has.

    Yields:
        Each item with its answer, as they come.

    Raises:
        MissingExtraError: ray is not installed.
        SoundwhereError: `make` raised one, or the cluster cannot be reached or was lost.
    """
    if not items:
        return
    with needing("ray", "scale"):
        import ray  # noqa: F401 - only whether it is there
    address = os.environ.get("RAY_ADDRESS")
    driver: Worker[Sequence[Item], str] = Worker(partial(_driver, make, workers, address))
    left = len(items)
    try:
        driver.give(items)
        while left:
            heard = driver.hear()
            if isinstance(heard, Told):
                number, answer = heard.news
                yield items[number], answer
                left -= 1
            else:
                why = heard if isinstance(heard, str) else f"its driver ended with {heard.code}"
                remedy = "Start the cluster again, then give the same command: what is done is kept."
                raise SoundwhereError(f"The ray cluster {address or 'of this machine'} was lost: {why}.", remedy)
        driver.hear()  # until it has left the cluster
        driver.dismiss()
        deadline = time.monotonic() + _PATIENCE_S
        while driver.alive and time.monotonic() < deadline:
            time.sleep(0.02)
    finally:
        driver.end()


def _driver(
    make: Callable[[Tell], Callable[[Any], Any]], workers: int | None, address: str | None, tell: Tell
) -> Callable[[Sequence[Any]], str]:
    """What the process does that drives the cluster: join it, then tell the number and the answer of every item."""
    silence = _silence(address) if address else None
    if silence is not None:  # before ray is there, which has something to say when it is stopped
        raise _unreachable(address, silence)

    import ray
    from ray.exceptions import RayError

    # without an address ray would look for a cluster that was here once, and wait for it
    where = {"address": address} if address else {"address": "local", "include_dashboard": False}
    failure: Exception | None = None
    # ray gives its own parts half a minute to start, which a busy machine may exceed: one here is tried again
    for _ in range(1 if address else _STARTS):
        try:
            ray.init(log_to_driver=False, logging_level=logging.ERROR, **where)
            failure = None
            break
        except Exception as error:  # every kind, plain ones too
            failure = error
            ray.shutdown()
    if failure is not None:
        raise _unreachable(address, failure) from failure

    def drive(items: Sequence[Any]) -> str:
        try:
            count = workers or int(ray.cluster_resources().get("CPU", 1))  # type: ignore[no-untyped-call, unused-ignore]
            for number, answer in _answers(items, make, min(count, len(items))):
                tell((number, answer))
        except RayError as error:
            return str(error).strip().splitlines()[0]
        finally:
            ray.shutdown()
        return "nothing was left to do"

    return drive


def _unreachable(address: str | None, failure: Exception) -> SoundwhereError:
    reason = (str(failure).strip().splitlines() or [repr(failure)])[0].rstrip(".")
    return SoundwhereError(
        f"The ray cluster {address or 'of this machine'} cannot be reached: {reason}.",
        "Start it with `ray start --head` and set its RAY_AUTH_TOKEN here, or unset RAY_ADDRESS to start one here.",
    )


def _silence(address: str) -> OSError | None:
    """Why nobody answers at `host:port`: ray itself goes on asking for twenty minutes."""
    host, _, port = address.rpartition(":")
    if "/" in host or not port.isdigit():  # another way to name a cluster, such as auto
        return None
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_PATIENCE_S).close()
    except (OSError, OverflowError) as error:
        return error if isinstance(error, OSError) else OSError(str(error))
    return None


def _answers(
    items: Sequence[Any], make: Callable[[Tell], Callable[[Any], Any]], count: int
) -> Iterator[tuple[int, Any]]:
    """Give items to actors and wait for their answers; a dead actor is replaced."""
    import ray
    from ray.exceptions import RayActorError

    actor = ray.remote(num_cpus=1, max_restarts=0)(_Actor)
    todo = deque(enumerate(items))
    busy: dict[Any, tuple[Any, int]] = {}

    def give(to: Any) -> None:
        number, item = todo.popleft()
        busy[to.answer.remote(item)] = to, number

    while busy or todo:
        while todo and len(busy) < count:
            give(actor.remote(make, str(Path.cwd())))
        for ready in ray.wait(list(busy), num_returns=1)[0]:
            worker, number = busy.pop(ready)
            try:
                answer = ray.get(ready)
            except RayActorError:
                answer = Died(None)
            else:
                if isinstance(answer, SoundwhereError):
                    raise answer
                if todo:
                    give(worker)
                else:  # where a node was lost, another actor may wait for this one's processor
                    ray.kill(worker)
            yield number, answer


class _Actor:
    """Answers items; what makes that impossible for any of them is an answer, too.

    It works in the driver's folder, which all machines see: names of files are relative to it.
    """

    def __init__(self, make: Callable[[Tell], Callable[[Any], Any]], folder: str) -> None:
        os.chdir(folder)
        self._make = make
        self._answer: Callable[[Any], Any] | None = None

    def answer(self, item: Any) -> Any:
        if self._answer is None:
            try:
                self._answer = self._make(lambda _news: None)
            except SoundwhereError as error:
                return error
        return self._answer(item)
