"""Normalisation as a part of the convolutions before it, for networks that no longer learn."""

from __future__ import annotations

import copy
from itertools import chain
from typing import TypeGuard, TypeVar

import torch
from torch import Tensor, nn

M = TypeVar("M", bound=nn.Module)


def folded(module: M) -> M:
    """A copy that answers the same but for rounding, sooner: BatchNorm costs as much as many a convolution.

    Only norms that stay as they are, behind a convolution in an `nn.Sequential`, are folded. All other weights
    are shared with the module; what changes in it later may be missing here.
    """
    shared: dict[int, object] = {id(tensor): tensor for tensor in chain(module.parameters(), module.buffers())}
    result = copy.deepcopy(module, shared)
    for part in result.modules():
        if isinstance(part, nn.Sequential):
            for place in range(len(part) - 1):
                layer, norm = part[place], part[place + 1]
                if type(layer) is nn.Conv2d and _is_settled(norm):
                    part[place], part[place + 1] = _fold(layer, norm), nn.Identity()
    return result


def _is_settled(norm: nn.Module) -> TypeGuard[nn.BatchNorm2d]:
    kept = isinstance(norm, nn.BatchNorm2d) and norm.affine and norm.track_running_stats
    return kept and not norm.training


@torch.no_grad()
def _fold(layer: nn.Conv2d, norm: nn.BatchNorm2d) -> nn.Conv2d:
    assert norm.running_mean is not None
    assert norm.running_var is not None
    mean, variance = norm.running_mean.double(), norm.running_var.double()
    scale = norm.weight.double() / (variance + norm.eps).sqrt()
    bias: Tensor | float = 0.0 if layer.bias is None else layer.bias.double()
    result = copy.copy(layer)
    result._parameters = {
        "weight": _kept(layer.weight.double() * scale[:, None, None, None], layer.weight),
        "bias": _kept(norm.bias.double() + (bias - mean) * scale, layer.weight),
    }
    return result


def _kept(values: Tensor, like: Tensor) -> nn.Parameter:
    return nn.Parameter(values.to(like.dtype), requires_grad=False)
