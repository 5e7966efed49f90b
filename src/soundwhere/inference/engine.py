"""Who does the work: processes of this machine, or a ray cluster. Both give every item's answer as it comes.

Items and answers travel by pickle, as does the function `make(tell)` that makes, in each process, what answers items.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeVar

from soundwhere import cores
from soundwhere.inference.pool import work_through

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from soundwhere.inference.pool import Died, Tell

Item = TypeVar("Item")
Answer = TypeVar("Answer")
Engine = Literal["local", "ray"]


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
        yield from work_through(items, make, workers or default_workers(), news)


def default_workers() -> int:
    """One for each processor that this process may use."""
    return cores.allowed()
