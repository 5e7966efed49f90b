"""What follows from what is seen is made once, for that very tensor and while it is asked for."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import torch

from soundwhere.models.recollection import once, remembering

if TYPE_CHECKING:
    from torch import Tensor


def test_it_is_made_once_for_the_very_tensor_and_forgotten_afterwards() -> None:
    made: list[Tensor] = []

    def double(tensor: Tensor) -> Tensor:
        made.append(tensor)
        return 2 * tensor

    seen, equal = torch.ones(2), torch.ones(2)
    assert once("double", seen, double) is not once("double", seen, double)
    assert len(made) == 2
    with remembering(seen):
        first = once("double", seen, double)
        assert once("double", seen, double) is first
        assert once("double", equal, double) is not first
        assert len(made) == 4
        assert once("half", seen, lambda tensor: tensor / 2).tolist() == [0.5, 0.5]
        with ThreadPoolExecutor(1) as pool:  # another thread is about other scenes
            assert pool.submit(once, "double", seen, double).result() is not first
    assert once("double", seen, double) is not first
