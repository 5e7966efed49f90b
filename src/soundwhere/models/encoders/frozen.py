"""Frozen means frozen: no gradients, and statistics that do not move."""

from __future__ import annotations

from functools import partial
from typing import TypeVar

from torch import nn

M = TypeVar("M", bound=nn.Module)


def freeze(module: M) -> M:
    """Keep a module as it is, in place, whatever `train()` is called on it, its parts or its parents.

    Parameters take no gradient and BatchNorm normalises with its running statistics. Names in the state dict stay the
    same, and weights may still be loaded.
    """
    module.requires_grad_(False).eval()
    for part in module.modules():
        # On the instance rather than in a wrapper, which would put its name before every parameter's.
        vars(part)["train"] = partial(_stay, part)
    return module


def _stay(module: M, mode: bool = True) -> M:
    return module
