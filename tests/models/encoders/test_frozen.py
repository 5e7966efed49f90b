"""Frozen means frozen, whatever the parent does."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from torch import nn

from soundwhere.models.encoders import build_visual, freeze


class Parent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.visual = freeze(build_visual("tiny"))
        self.head = nn.Conv2d(128, 4, 1)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return self.head(self.visual(image))


def _train(parent: nn.Module) -> None:
    parent.train()
    for part in parent.modules():
        part.train()
    optimiser = torch.optim.Adam([p for p in parent.parameters() if p.requires_grad], lr=0.1)
    parent(torch.randn(2, 3, 64, 64) + 5).square().mean().backward()
    optimiser.step()


@pytest.mark.parametrize(
    "copied", [lambda parent: parent, copy.deepcopy, lambda parent: pickle.loads(pickle.dumps(parent))]
)
def test_training_the_parent_moves_nothing(copied: object) -> None:
    parent = copied(Parent())  # type: ignore[operator]
    before = copy.deepcopy(parent.state_dict())
    _train(parent)
    moved = {name for name, value in parent.state_dict().items() if not torch.equal(value, before[name])}
    assert moved == {"head.weight", "head.bias"}
    assert all(parameter.grad is None for parameter in parent.visual.parameters())
    assert not any(part.training for part in parent.visual.modules())
    assert parent.training


def test_a_copy_freezes_itself_and_not_its_original() -> None:
    original = build_visual("tiny")
    twin = freeze(copy.deepcopy(original))
    assert original.train().training
    assert not twin.train().training
    assert twin.train() is twin


def test_names_stay_and_weights_still_load() -> None:
    plain, frozen = build_visual("tiny"), freeze(build_visual("tiny"))
    assert list(frozen.state_dict()) == list(plain.state_dict())
    frozen.load_state_dict(plain.state_dict())
    image = torch.randn(1, 3, 64, 64)
    torch.testing.assert_close(frozen(image), plain.eval()(image))
    assert not frozen(image).requires_grad
