"""Ranks, gather with gradient: every collective of the package. On one process each is a no-op.

One machine with several GPUs:  torchrun --nproc-per-node 4 -m soundwhere train ...  (or evaluate)
Without a GPU the same command runs over gloo.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar, cast

import torch
import torch.distributed as dist
from torch import Tensor

from soundwhere import cores
from soundwhere.errors import ConfigError, SoundwhereError

if TYPE_CHECKING:
    from collections.abc import Iterator

T = TypeVar("T")


def rank() -> int:
    """Number of this process, from 0."""
    return dist.get_rank() if _several() else 0


def world_size() -> int:
    """How many processes work together."""
    return dist.get_world_size() if _several() else 1


def local_rank() -> int:
    """Number of this process among those of its machine, from 0."""
    return int(os.environ.get("LOCAL_RANK", "0")) if _several() else 0


def local_size() -> int:
    """How many of the processes run on this machine."""
    return int(os.environ.get("LOCAL_WORLD_SIZE", world_size())) if _several() else 1


def is_main() -> bool:
    """Whether this process is the one that prints and writes."""
    return rank() == 0


def initialise(device: str = "auto") -> torch.device:
    """Choose this process's device and, if torchrun started it, join the others (nccl on CUDA, gloo on the CPU).

    torch gets no more threads than there are processors for this process.

    Args:
        device: `auto`, `cpu`, `cuda` or `cuda:N`. Under torchrun, each process takes the GPU of its local rank.
    """
    cores.settle()
    several = int(os.environ.get("WORLD_SIZE", "1")) > 1
    chosen = _device(device, int(os.environ.get("LOCAL_RANK", "0")) if several else None)
    if chosen.type == "cuda":
        torch.cuda.set_device(chosen)
    if several and not dist.is_initialized():
        dist.init_process_group("nccl" if chosen.type == "cuda" else "gloo")
    return chosen


def shutdown() -> None:
    """Leave the group that `initialise` joined."""
    if dist.is_available() and dist.is_initialized():
        dist.destroy_process_group()


def barrier() -> None:
    """Wait until every process is here."""
    if _several():
        dist.barrier()


def from_main(value: T) -> T:
    """What the main process has, on all; it travels by pickle."""
    if not _several():
        return value
    told = [value if is_main() else None]
    with _lost_is_told():
        dist.broadcast_object_list(told, 0)
    return cast(T, told[0])


def from_all(value: T) -> list[T]:
    """What each process has, in rank order, on all; it travels by pickle.

    Raises:
        SoundwhereError: Another process has ended.
    """
    if not _several():
        return [value]
    told: list[Any] = [None] * world_size()
    with _lost_is_told():
        dist.all_gather_object(told, value)
    return told


@contextmanager
def _lost_is_told() -> Iterator[None]:
    """What the backends raise when another process is gone says little."""
    try:
        yield
    except RuntimeError as error:
        raise SoundwhereError(
            "Another process of this run has ended.", "See what it said; the same command goes on where this run was."
        ) from error


def gather(tensor: Tensor) -> Tensor:
    """Join the batches of all processes, in rank order, letting gradients flow back to each.

    Each process's gradient is the sum over all processes' losses. `DistributedDataParallel` averages over processes, so
    a loss that every process computes alike on the gathered batch gives the gradient one process would get.

    Args:
        tensor: Shape (B, ...), the same on every process.

    Returns:
        Shape (world * B, ...).
    """
    return cast(Tensor, _Gather.apply(tensor)) if _several() else tensor  # type: ignore[no-untyped-call]


def own_numbers(tensor: Tensor) -> Tensor:
    """Where this process's rows (B, ...) are in what `gather` joins, shape (B,), int64."""
    return torch.arange(len(tensor), device=tensor.device) + rank() * len(tensor)


def all_reduce_sum(tensor: Tensor) -> Tensor:
    """Sum over processes, element by element; the gradient is summed over processes too."""
    return cast(Tensor, _AllReduceSum.apply(tensor)) if _several() else tensor  # type: ignore[no-untyped-call]


def _several() -> bool:
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


def _device(name: str, local_rank: int | None) -> torch.device:
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ConfigError(f"Unknown device {name!r}.", "Choose auto, cpu, cuda or cuda:N.") from error
    if device.type == "cpu":
        return device
    if device.type != "cuda":
        raise ConfigError(f"Device {name!r} is not supported.", "Choose auto, cpu, cuda or cuda:N.")
    if local_rank is not None:
        device = torch.device("cuda", local_rank)
    if (device.index or 0) >= torch.cuda.device_count():
        found = torch.cuda.device_count()
        raise ConfigError(f"Device {device} was asked for, but torch finds {found} GPUs.", "Choose auto or cpu.")
    return device


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor) -> Tensor:
        parts = [torch.empty_like(tensor, memory_format=torch.contiguous_format) for _ in range(world_size())]
        dist.all_gather(parts, tensor.contiguous())
        return torch.cat(parts)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        gradient = gradient.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(gradient)
        return gradient.chunk(world_size())[rank()]


class _AllReduceSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor) -> Tensor:
        total = tensor.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        gradient = gradient.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(gradient)
        return gradient
