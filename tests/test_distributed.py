"""Collectives on two real processes agree with one process on the joined batch."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING, Any

import pytest
import torch
import torch.distributed as dist

from soundwhere import distributed
from soundwhere.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def _batch() -> torch.Tensor:
    return torch.randn(6, 3, 2, generator=torch.Generator().manual_seed(0))


def _loss(joined: torch.Tensor, rank: int) -> torch.Tensor:
    """Differs between processes, so that a gradient from the wrong process shows."""
    return (joined.flatten(1) @ joined.flatten(1).T).sigmoid().sum() * (rank + 1)


def _work(rank: int, folder: Path, port: int) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    own = _batch()[3 * rank : 3 * rank + 3].requires_grad_()
    transposed = own.transpose(1, 2)  # not contiguous, as features may be
    joined = distributed.gather(transposed)
    _loss(joined, rank).backward()
    part = (_batch()[rank] + rank).requires_grad_()
    total = distributed.all_reduce_sum(part)
    (total.square().sum() * (rank + 1)).backward()
    distributed.barrier()
    answers: dict[str, Any] = {
        "rank": distributed.rank(),
        "world_size": distributed.world_size(),
        "is_main": distributed.is_main(),
        "joined": joined.detach(),
        "joined_gradient": own.grad,
        "total": total.detach(),
        "total_gradient": part.grad,
    }
    distributed.shutdown()
    # then once more as torchrun would start it
    os.environ.update(
        RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port)
    )
    answers["device"] = distributed.initialise("cpu").type
    answers["backend"] = dist.get_backend()
    answers["ranks"] = distributed.gather(torch.tensor([distributed.rank()])).tolist()
    distributed.shutdown()
    torch.save(answers, folder / f"{rank}.pt")


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory, on_two_processes: Callable[..., None]) -> list[dict[str, Any]]:
    folder = tmp_path_factory.mktemp("processes")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    on_two_processes(_work, folder, port)
    return [torch.load(folder / f"{rank}.pt") for rank in range(2)]


def test_each_process_knows_its_place(answers: list[dict[str, Any]]) -> None:
    assert [answer["rank"] for answer in answers] == [0, 1]
    assert [answer["world_size"] for answer in answers] == [2, 2]
    assert [answer["is_main"] for answer in answers] == [True, False]


def test_gather_agrees_with_the_joined_batch(answers: list[dict[str, Any]]) -> None:
    whole = _batch().requires_grad_()
    joined = whole.transpose(1, 2)
    (_loss(joined, 0) + _loss(joined, 1)).backward()
    for rank, answer in enumerate(answers):
        torch.testing.assert_close(answer["joined"], joined.detach(), rtol=0, atol=0)
        torch.testing.assert_close(answer["joined_gradient"], whole.grad[3 * rank : 3 * rank + 3])


def test_sum_over_processes_agrees_with_a_plain_sum(answers: list[dict[str, Any]]) -> None:
    parts = [(_batch()[rank] + rank).requires_grad_() for rank in range(2)]
    total = parts[0] + parts[1]
    (total.square().sum() * 3).backward()
    for part, answer in zip(parts, answers, strict=True):
        torch.testing.assert_close(answer["total"], total.detach())
        torch.testing.assert_close(answer["total_gradient"], part.grad)


def test_torchruns_variables_are_enough_to_join(answers: list[dict[str, Any]]) -> None:
    for answer in answers:
        assert (answer["device"], answer["backend"], answer["ranks"]) == ("cpu", "gloo", [0, 1])


def test_on_one_process_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    assert distributed.initialise("cpu") == torch.device("cpu")
    assert not dist.is_initialized()
    tensor = torch.rand(2, 3)
    assert distributed.gather(tensor) is tensor
    assert distributed.all_reduce_sum(tensor) is tensor
    assert (distributed.rank(), distributed.world_size(), distributed.is_main()) == (0, 1, True)
    distributed.barrier()
    distributed.shutdown()
    assert not dist.is_initialized()


@pytest.mark.parametrize("name", ["gpu", "cuda:99", "mps", "meta"])
def test_a_device_that_is_not_there_is_refused(name: str) -> None:
    with pytest.raises(ConfigError) as caught:
        distributed.initialise(name)
    assert "Choose" in caught.value.remedy
