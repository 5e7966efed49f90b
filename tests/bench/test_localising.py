from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from torch import nn

from soundwhere.bench import localising as bench
from soundwhere.errors import MediaError
from soundwhere.inference.localiser import Localiser
from soundwhere.media.video import probe

if TYPE_CHECKING:
    from pathlib import Path

    from soundwhere.methods.scav.model import SCAV


def test_the_plain_loop_finds_the_same(tiny: SCAV, tmp_path: Path) -> None:
    clip = tmp_path / "clip.mp4"
    bench.write_clip(clip, 1.2, size=(64, 96), fps=10)
    assert (probe(clip).width, probe(clip).height) == (96, 64)
    maps = bench.plain_loop(tiny, clip, fps=5, hop_s=0.5)
    localiser = Localiser(tiny, "cpu", fps=5, hop_s=0.5, smooth=False)
    result = localiser.localise(clip)
    assert maps.shape == result.maps.shape == (6, 2, 8, 12)
    assert bench.differences(localiser, result.footage, maps).shape == (6,)
    assert bench.differences(localiser, result.footage, maps).max() < 1e-5
    assert bench.differences(localiser, result.footage, maps + 0.1).min() > 0.09
    with pytest.raises(MediaError, match="5 frames instead of 6"):
        bench.differences(localiser, result.footage, maps[:5])
    assert maps.std() > 1e-3  # there is something to compare
    parts = {part.name: part for part in bench.time_parts(localiser, tiny, result, tmp_path / "overlay.mp4")}
    assert all(part.seconds > 0 for part in parts.values())
    assert probe(tmp_path / "overlay.mp4").has_audio
    assert parts["draw"].flop == 0
    size = (128, 192)
    counted = bench.count_flop(tiny, size, 2)
    assert parts["encode image, decouple"].flop == 6 * (counted["encode image"] + counted["decouple"])


def test_operations_are_counted_as_by_hand(tiny: SCAV) -> None:
    """Every convolution: 2 x outputs x inputs x kernel for each cell."""
    expected = 0

    def add(layer: nn.Module, _inputs: object, output: torch.Tensor) -> None:
        nonlocal expected
        assert isinstance(layer, nn.Conv2d)
        expected += 2 * output[0].numel() * layer.in_channels * int(np.prod(layer.kernel_size))

    hooks = [layer.register_forward_hook(add) for layer in tiny.visual.modules() if isinstance(layer, nn.Conv2d)]
    counted = bench.count_flop(tiny, (64, 96), 2)["encode image"]
    for hook in hooks:
        hook.remove()
    assert counted == expected > 0
    assert bench.peak_flop_per_s() > 1e8
    assert bench.single_forward_s(tiny, tiny) > 0
