"""Lists whose members are made when they are asked for."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from copy import copy
from typing import Generic, Self, TypeVar, overload

R = TypeVar("R")
T = TypeVar("T")


class Lazy(Sequence[T], Generic[R, T]):
    """What is made of records, each when it is asked for; a slice is such a list too, of which nothing is made yet.

    Args:
        records: One for each member.
    """

    def __init__(self, records: Sequence[R]) -> None:
        self.records = records

    def __len__(self) -> int:
        return len(self.records)

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> Self: ...
    def __getitem__(self, index: int | slice) -> T | Self:
        if isinstance(index, slice):
            some = copy(self)
            some.records = self.records[index]
            return some
        return self.make(self.records[index])

    @abstractmethod
    def make(self, record: R) -> T:
        """What a record tells of."""
