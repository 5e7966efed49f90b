"""One process-wide memory of decoded arrays: reading files anew for every draw would be most of the work."""

from __future__ import annotations

from collections import OrderedDict
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator

    import numpy as np
    from numpy.typing import NDArray

    Array = TypeVar("Array", bound=NDArray[Any])


class Memory:
    """The arrays asked for last, up to a number of bytes. Keys must name the content, e.g. include a file's time."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._arrays: OrderedDict[Hashable, NDArray[np.generic]] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()

    def get(self, key: Hashable, make: Callable[[], Array]) -> Array:
        """The array of `key`, made if it is not there; read-only, because everyone gets the same one."""
        with self._lock:
            if key in self._arrays:
                self._arrays.move_to_end(key)
                return cast("Array", self._arrays[key])
        array = make()
        array.setflags(write=False)
        with self._lock:
            if key not in self._arrays:
                self._arrays[key] = array
                self._bytes += array.nbytes
            while self._bytes > self._limit:
                self._bytes -= self._arrays.popitem(last=False)[1].nbytes
        return array

    @contextmanager
    def set_aside(self) -> Iterator[None]:
        """For a while, as if nothing were remembered; what is remembered meanwhile is forgotten at the end."""
        with self._lock:
            kept = self._arrays, self._bytes
            self._arrays, self._bytes = OrderedDict(), 0
        try:
            yield
        finally:
            with self._lock:
                self._arrays, self._bytes = kept


MEMORY = Memory(limit_bytes=2 << 30)
