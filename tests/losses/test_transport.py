from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.optimize import linprog

from soundwhere.losses.transport import cell_distances, sinkhorn_distance


def masses(rows: int, cells: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    drawn = torch.rand(rows, cells, generator=generator, dtype=torch.float64) ** 3
    return drawn / drawn.sum(1, keepdim=True)


def plain_sinkhorn(source: np.ndarray, target: np.ndarray, cost: np.ndarray, entropy: float, iterations: int) -> float:
    """Scale rows and columns of a kernel in turn, entry by entry."""
    cells = len(source)
    kernel = [[np.exp(-cost[i][j] / entropy) for j in range(cells)] for i in range(cells)]
    column = [1.0] * cells
    row = [1.0] * cells
    for _ in range(iterations):
        row = [source[i] / sum(kernel[i][j] * column[j] for j in range(cells)) for i in range(cells)]
        column = [target[j] / sum(kernel[i][j] * row[i] for i in range(cells)) for j in range(cells)]
    return sum(row[i] * kernel[i][j] * column[j] * cost[i][j] for i in range(cells) for j in range(cells))


def test_it_agrees_with_a_plain_loop() -> None:
    first, second = masses(2, 6)
    cost = cell_distances(2, 3)
    found = sinkhorn_distance(first, second, cost, 0.1, 20)
    assert float(found) == pytest.approx(
        plain_sinkhorn(*(t.numpy() for t in (first, second, cost)), 0.1, 20), rel=1e-12
    )


def test_little_entropy_gives_the_exact_distance() -> None:
    first, second = masses(2, 9)
    cost = cell_distances(3, 3)
    sums = np.concatenate([np.kron(np.eye(9), np.ones(9)), np.kron(np.ones(9), np.eye(9))])
    exact = linprog(cost.numpy().ravel(), A_eq=sums, b_eq=torch.cat([first, second]).numpy()).fun
    assert float(sinkhorn_distance(first, second, cost, 2e-3, 2000)) == pytest.approx(exact, rel=2e-3)


def test_many_at_once_are_as_each_alone() -> None:
    many = masses(6, 12).reshape(2, 3, 12)
    cost = cell_distances(3, 4)
    together = sinkhorn_distance(many, many.flip(1), cost, 0.05, 50)
    alone = [
        [sinkhorn_distance(a, b, cost, 0.05, 50) for a, b in zip(*pair, strict=True)]
        for pair in zip(many, many.flip(1), strict=True)
    ]
    assert torch.allclose(together, torch.tensor(alone, dtype=torch.float64))


def test_mass_in_one_cell_travels_the_distance_between_cells() -> None:
    corner, opposite = torch.eye(12)[[0, 11]]
    assert float(sinkhorn_distance(corner, opposite, cell_distances(3, 4), 0.05, 50)) == pytest.approx(1)


def test_cells_without_mass_and_little_entropy_leave_gradients_finite() -> None:
    source = torch.eye(12)[0].requires_grad_(True)
    sinkhorn_distance(source, torch.eye(12)[11], cell_distances(3, 4), 1e-3, 20).backward()
    assert torch.isfinite(source.grad).all()
