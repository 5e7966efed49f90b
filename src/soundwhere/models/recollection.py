"""What follows from what is seen alone is made once, while several answers are about the same picture."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator

    from torch import Tensor

_kept: ContextVar[tuple[Tensor, dict[Hashable, Tensor]] | None] = ContextVar("kept", default=None)


@contextmanager
def remembering(seen: Tensor) -> Iterator[None]:
    """Within it, what `once` makes of this very tensor is kept; nobody may change the tensor or what was made of it.

    It counts for the thread that entered it. Outside of it, as in training and in export, nothing is kept.
    """
    token = _kept.set((seen, {}))
    try:
        yield
    finally:
        _kept.reset(token)


def once(name: Hashable, tensor: Tensor, make: Callable[[Tensor], Tensor]) -> Tensor:
    """What is made of a tensor, from memory if it is the one that is remembered.

    Args:
        name: Of what is made; networks that make different things of one tensor need different names.
        tensor: What it is made of.
        make: Makes it, of nothing but the tensor and what stays as it is.
    """
    kept = _kept.get()
    if kept is None or kept[0] is not tensor:
        return make(tensor)
    if name not in kept[1]:
        kept[1][name] = make(tensor)
    return kept[1][name]
