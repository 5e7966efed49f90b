"""Batch normalisation over the whole batch of all processes."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from soundwhere.distributed import all_reduce_sum, world_size


class SynchronisedBatchNorm2d(nn.BatchNorm2d):
    """BatchNorm2d whose training statistics span every process, on the CPU as on GPUs.

    On one process it is `nn.BatchNorm2d`; its state-dict names are the same. (torch's SyncBatchNorm needs GPUs.)
    """

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 - torch's name
        """Normalise features of shape (B, C, H, W) channel by channel."""
        return _over_all(self, input) if self.training and world_size() > 1 else super().forward(input)


class SynchronisedBatchNorm1d(nn.BatchNorm1d):
    """BatchNorm1d whose training statistics span every process; see `SynchronisedBatchNorm2d`."""

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 - torch's name
        """Normalise vectors of shape (B, C) channel by channel."""
        return _over_all(self, input) if self.training and world_size() > 1 else super().forward(input)


def _over_all(norm: nn.BatchNorm1d | nn.BatchNorm2d, input: Tensor) -> Tensor:  # noqa: A002 - torch's name
    """Normalise features (B, C, ...) by the statistics of every process's batch."""
    features = input.float()  # bf16 sums lose digits
    rest = (0, *range(2, features.ndim))
    count = all_reduce_sum(features.new_tensor(features.numel() // features.shape[1]))
    mean = all_reduce_sum(features.sum(rest)) / count
    centred = features - _per_channel(mean, features)
    variance = all_reduce_sum(centred.square().sum(rest)) / count
    _track(norm, mean.detach(), variance.detach() * (count / (count - 1).clamp(min=1)))
    scale = torch.rsqrt(variance + norm.eps) * norm.weight
    return torch.addcmul(_per_channel(norm.bias, features), centred, _per_channel(scale, features)).to(input.dtype)


@torch.no_grad()
def _track(norm: nn.BatchNorm1d | nn.BatchNorm2d, mean: Tensor, unbiased_variance: Tensor) -> None:
    """Move the running statistics towards this batch's."""
    if norm.running_mean is None or norm.running_var is None or norm.num_batches_tracked is None:
        return
    norm.num_batches_tracked.add_(1)
    step = 1 / norm.num_batches_tracked.item() if norm.momentum is None else norm.momentum
    norm.running_mean.lerp_(mean, step)
    norm.running_var.lerp_(unbiased_variance, step)


def _per_channel(values: Tensor, features: Tensor) -> Tensor:
    return values.reshape(-1, *[1] * (features.ndim - 2))
