"""What a step sees depends on the seed and the step alone: not on who asks, nor on where a run was taken up."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch

from soundwhere.data import draws as module
from soundwhere.data.draws import Example, batches, collate
from soundwhere.media.image import normalise

if TYPE_CHECKING:
    from collections.abc import Iterator

    from soundwhere.types import Batch


class Counted:
    """Draw n sounds and looks like n."""

    def __init__(self, native: bool = False, features: bool = False) -> None:
        self.native = native
        self._features = features

    def __len__(self) -> int:
        return 5

    def draw(self, number: int, pictures: bool = False) -> Example:
        sounds = np.full((1 if self.native else 2, 4), number, np.float32)
        sounds[-1] += 0.5
        if self._features and not pictures:
            return Example(sounds, features=np.full((3, 2, 2), number, np.float16))
        return Example(sounds, np.full((2, 2, 3), number, np.uint8))


def numbers(feed: Iterator[Batch]) -> list[list[int]]:
    return [batch.solos[:, 0, 0].int().tolist() for batch in feed if batch.solos is not None]


def test_steps_take_consecutive_draws_beyond_an_epoch() -> None:
    assert numbers(batches(Counted(), range(3), 4)) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_run_taken_up_at_a_step_sees_the_same(workers: int) -> None:
    whole = numbers(batches(Counted(), range(6), 3))
    assert numbers(batches(Counted(), range(4, 6), 3, workers)) == whole[4:]
    assert numbers(batches(Counted(), range(6, 6), 3, workers)) == []


def test_shares_of_two_processes_join_to_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = numbers(batches(Counted(), range(3), 6))
    monkeypatch.setattr(module, "world_size", lambda: 2)
    shares = []
    for rank in range(2):
        monkeypatch.setattr(module, "rank", lambda rank=rank: rank)
        shares.append(numbers(batches(Counted(), range(3), 6)))
    assert [first + second for first, second in zip(*shares, strict=True)] == whole


def test_feeding_leaves_the_global_random_state_alone() -> None:
    torch.manual_seed(0)
    before = torch.get_rng_state()
    assert len(list(batches(Counted(), range(2), 4))) == 2
    assert torch.equal(torch.get_rng_state(), before)


def test_a_batch_of_made_mixtures() -> None:
    batch = collate([Counted().draw(number) for number in (3, 4)], native=False)
    assert batch.solos is not None
    assert batch.solos.shape == (2, 2, 4)
    torch.testing.assert_close(batch.mixture, batch.solos.sum(1))
    assert batch.image is not None
    torch.testing.assert_close(batch.image, normalise(np.stack([np.full((2, 2, 3), n, np.uint8) for n in (3, 4)])))
    assert batch.features is None


def test_a_batch_of_native_mixtures_has_no_separate_sounds() -> None:
    batch = collate([Counted(native=True).draw(number) for number in (3, 4)], native=True)
    assert batch.solos is None
    assert batch.mixture[:, 0].tolist() == [3.5, 4.5]


def test_cached_features_take_the_place_of_pictures() -> None:
    batch = collate([Counted(features=True).draw(number) for number in (3, 4)], native=False)
    assert batch.image is None
    assert batch.features is not None
    assert batch.features.dtype == torch.float32
    assert batch.features[:, 0, 0, 0].tolist() == [3, 4]


def test_parts_of_a_batch() -> None:
    batch = collate([Counted().draw(number) for number in range(4)], native=False)
    assert len(batch) == 4
    part = batch[1:3]
    assert part.mixture[:, 0].tolist() == [2.5, 4.5]
    assert len(part) == 2
    assert part.solos is not None
    assert part.features is None
    assert part.to("cpu").mixture.equal(part.mixture)
