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
        if not self.training or world_size() == 1:
            return super().forward(input)
        features = input.float()  # bf16 sums lose digits
        count = all_reduce_sum(features.new_tensor(features.numel() // features.shape[1]))
        mean = all_reduce_sum(features.sum((0, 2, 3))) / count
        centred = features - _per_channel(mean)
        variance = all_reduce_sum(centred.square().sum((0, 2, 3))) / count
        self._track(mean.detach(), variance.detach() * (count / (count - 1).clamp(min=1)))
        scale = torch.rsqrt(variance + self.eps) * self.weight
        return torch.addcmul(_per_channel(self.bias), centred, _per_channel(scale)).to(input.dtype)

    @torch.no_grad()
    def _track(self, mean: Tensor, unbiased_variance: Tensor) -> None:
        """Move the running statistics towards this batch's."""
        if self.running_mean is None or self.running_var is None or self.num_batches_tracked is None:
            return
        self.num_batches_tracked.add_(1)
        step = 1 / self.num_batches_tracked.item() if self.momentum is None else self.momentum
        self.running_mean.lerp_(mean, step)
        self.running_var.lerp_(unbiased_variance, step)


def _per_channel(values: Tensor) -> Tensor:
    return values[:, None, None]
