"""Normalisation: one process is torch's own; two processes are one process on the joined batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from soundwhere.distributed import gather
from soundwhere.models.encoders.norm import SynchronisedBatchNorm1d, SynchronisedBatchNorm2d

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Answers = tuple[dict[str, dict[str, Tensor]], list[Tensor]]  # of one process, by norm; gradients of a network


def _input() -> Tensor:
    # an offset far from zero: a variance taken as E[x^2] - E[x]^2 would lose its digits
    return 3 * torch.randn(8, 4, 5, 6, generator=torch.Generator().manual_seed(0)) + 100


def _vectors() -> Tensor:
    return _input().mean((2, 3))


def _start(norm: nn.Module) -> nn.Module:
    with torch.no_grad():
        norm.weight.copy_(torch.tensor([1.0, 2.0, -1.0, 0.5]))
        norm.bias.copy_(torch.tensor([0.0, 1.0, 2.0, -3.0]))
    return norm


def _pass(norm: nn.Module, features: Tensor) -> dict[str, Tensor]:
    """Two training steps and an evaluation; the loss weighs every element differently."""
    features = features.clone().requires_grad_()
    for _ in range(2):
        output = norm(features)
    (output * features.detach().sin()).square().sum().backward()
    return {
        "output": output.detach(),
        "evaluated": norm.eval()(features).detach(),
        "input gradient": features.grad,
        "weight gradient": norm.weight.grad,
        "bias gradient": norm.bias.grad,
        **norm.state_dict(),
    }


def _network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(4, 6, 3, bias=False),
        SynchronisedBatchNorm2d(6),
        nn.ReLU(),
        nn.Conv2d(6, 3, 1),
        SynchronisedBatchNorm2d(3),
    )


def _contrast(output: Tensor) -> Tensor:
    """A loss that compares every sample with every other, as the contrastive ones do."""
    embedding = nn.functional.normalize(gather(output.mean((2, 3))), dim=1)
    return nn.functional.cross_entropy(embedding @ embedding.T.roll(1, 0), torch.arange(len(embedding)))


def _gradients(rank: int) -> list[Tensor | None]:
    """Of a rank's half of the batch; the network is gone before its group is, or torch may wait for ever at the end."""
    network = DistributedDataParallel(_network())
    _contrast(network((_input() - 100)[4 * rank : 4 * rank + 4])).backward()
    return [parameter.grad for parameter in network.parameters()]


def _work(rank: int, folder: Path) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    rows = slice(0, 3) if rank == 0 else slice(3, 8)  # batches of different size count by their size
    answers = {
        "2d": _pass(_start(SynchronisedBatchNorm2d(4)), _input()[rows]),
        "1d": _pass(_start(SynchronisedBatchNorm1d(4)), _vectors()[rows]),
    }
    gradients = _gradients(rank)
    dist.destroy_process_group()
    torch.save((answers, gradients), folder / f"{rank}.pt")


@pytest.fixture(scope="module")
def two_processes(tmp_path_factory: pytest.TempPathFactory, on_two_processes: Callable[..., None]) -> list[Answers]:
    folder = tmp_path_factory.mktemp("processes")
    on_two_processes(_work, folder)
    return [torch.load(folder / f"{rank}.pt") for rank in range(2)]


KINDS: dict[str, tuple[Callable[[], Tensor], type[nn.Module], type[nn.Module]]] = {
    "2d": (_input, SynchronisedBatchNorm2d, nn.BatchNorm2d),
    "1d": (_vectors, SynchronisedBatchNorm1d, nn.BatchNorm1d),
}


@pytest.mark.parametrize("kind", KINDS)
def test_one_process_is_torchs_own(kind: str) -> None:
    features, *norms = KINDS[kind]
    ours, theirs = (_pass(_start(norm(4)), features()) for norm in norms)
    assert list(ours) == list(theirs)
    for name in theirs:
        torch.testing.assert_close(ours[name], theirs[name], rtol=0, atol=0)


@pytest.mark.parametrize("kind", KINDS)
def test_two_processes_are_one_on_the_joined_batch(kind: str, two_processes: list[Answers]) -> None:
    features, _, theirs = KINDS[kind]
    expected = _pass(_start(theirs(4)), features())
    first, second = (answers[kind] for answers, _ in two_processes)
    for name in ("output", "evaluated", "input gradient"):
        torch.testing.assert_close(torch.cat([first[name], second[name]]), expected[name], rtol=1e-4, atol=1e-3)
    for name in ("weight gradient", "bias gradient"):
        torch.testing.assert_close(first[name] + second[name], expected[name], rtol=1e-4, atol=1e-3)
    for name in ("running_mean", "running_var", "num_batches_tracked"):
        torch.testing.assert_close(first[name], expected[name])
        torch.testing.assert_close(second[name], expected[name])


def test_a_network_trains_on_two_processes_as_on_one(
    two_processes: list[Answers],
) -> None:
    network = _network()
    _contrast(network(_input() - 100)).backward()
    for _, gradients in two_processes:
        for found, parameter in zip(gradients, network.parameters(), strict=True):
            torch.testing.assert_close(found, parameter.grad, rtol=1e-3, atol=1e-5)
