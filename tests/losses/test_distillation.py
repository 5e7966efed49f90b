"""Agreement of decoupled maps with solo maps, in whichever order fits."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from soundwhere.config import Thresholds
from soundwhere.losses.distillation import PROBABILITY_TEMPERATURE, distillation_loss, presence_logits

PAPER = Thresholds()


def scenes(sources: int, samples: int = 2) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(sources)
    similarity = 2 * torch.rand(samples, sources, 3, 4, generator=generator) - 1
    return similarity, torch.rand(samples, sources, 3, 4, generator=generator)


def agreeing(teacher: Tensor) -> Tensor:
    """The similarity whose probability is the teacher's value."""
    return torch.logit(teacher.clamp(1e-4, 1 - 1e-4)) * PROBABILITY_TEMPERATURE + (PAPER.positive + PAPER.negative) / 2


def plain_cost(similarity: list[float], teacher: list[float]) -> float:
    middle = (0.65 + 0.4) / 2
    probability = [1 / (1 + math.exp(-(s - middle) / PROBABILITY_TEMPERATURE)) for s in similarity]
    pairs = list(zip(probability, teacher, strict=True))
    entropy = -sum(t * math.log(p) + (1 - t) * math.log(1 - p) for p, t in pairs) / len(pairs)
    shared = sum(p * t for p, t in pairs)
    return entropy + 1 - shared / (sum(probability) + sum(teacher) - shared)


@pytest.mark.parametrize("sources", [1, 2, 3])
def test_against_plain_loops_over_orders_and_cells(sources: int) -> None:
    similarity, teacher = (tensor.double() for tensor in scenes(sources))
    total = 0.0
    for student_maps, teacher_maps in zip(similarity, teacher, strict=True):
        costs = [
            sum(
                plain_cost(student_maps[k].flatten().tolist(), teacher_maps[order[k]].flatten().tolist())
                for k in range(sources)
            )
            / sources
            for order in itertools.permutations(range(sources))
        ]
        total += min(costs)
    assert distillation_loss(similarity, teacher, PAPER).item() == pytest.approx(total / len(similarity), rel=1e-6)


@given(st.permutations(range(3)), st.permutations(range(3)))
def test_no_order_of_sources_matters(students: list[int], teachers: list[int]) -> None:
    similarity, teacher = scenes(3)
    expected = distillation_loss(similarity, teacher, PAPER)
    torch.testing.assert_close(distillation_loss(similarity[:, students], teacher[:, teachers], PAPER), expected)


def test_each_sample_has_its_own_order() -> None:
    _, teacher = scenes(2)
    student = agreeing(teacher)
    mixed = torch.stack([student[0], student[1].flip(0)])
    torch.testing.assert_close(distillation_loss(mixed, teacher, PAPER), distillation_loss(student, teacher, PAPER))


def test_agreement_costs_little_and_descent_ends_near_it() -> None:
    teacher = torch.zeros(1, 2, 4, 4)
    teacher[0, 0, :2, :2] = 1
    teacher[0, 1, 2:, 2:] = 1
    agreed = distillation_loss(agreeing(teacher), teacher, PAPER).item()
    assert agreed < 0.01
    for other in (torch.zeros_like(teacher), torch.ones_like(teacher), agreeing(teacher).roll(1, -1)):
        assert distillation_loss(other, teacher, PAPER).item() > agreed + 0.3
    student = (0.5 + 0.01 * torch.rand(1, 2, 4, 4, generator=torch.Generator().manual_seed(0))).requires_grad_()
    optimiser = torch.optim.Adam([student], lr=0.05)
    for _ in range(60):
        optimiser.zero_grad()
        distillation_loss(student, teacher, PAPER).backward()
        optimiser.step()
    maps = presence_logits(student, PAPER).sigmoid() > 0.5
    assert {tuple(m.flatten().tolist()) for m in maps[0]} == {tuple((m > 0.5).flatten().tolist()) for m in teacher[0]}


def test_a_cell_is_undecided_half_way_between_the_thresholds() -> None:
    assert presence_logits(torch.tensor(0.525), PAPER).item() == pytest.approx(0, abs=1e-6)
