"""Every encoder: shapes, sign, names, gradients and size."""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from soundwhere.errors import ConfigError
from soundwhere.methods.scav.config import NAMED
from soundwhere.models.encoders import AUDIO, VISUAL, build_audio, build_visual
from soundwhere.models.encoders.norm import SynchronisedBatchNorm2d

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ENCODERS = [*((build_visual, name) for name in VISUAL), *((build_audio, name) for name in AUDIO)]

SPECTROGRAM = (552, 121)  # of a 3 s clip at the paper's setting


def test_every_named_model_has_its_encoders() -> None:
    assert {config.visual for config in NAMED.values()} <= set(VISUAL) == {"resnet18", "mobilenet_v2", "plain", "tiny"}
    assert {config.audio for config in NAMED.values()} <= set(AUDIO)
    assert set(AUDIO) == {"resnet18", "mobilenet_v2", "compact", "plain", "tiny"}


def test_an_unknown_encoder_lists_those_there_are() -> None:
    with pytest.raises(ConfigError, match="no visual encoder 'eagle'") as caught:
        build_visual("eagle")
    assert "resnet18, mobilenet_v2, plain, tiny" in caught.value.remedy
    with pytest.raises(ConfigError, match="no audio encoder 'bat'") as caught:
        build_audio("bat")
    assert "compact" in caught.value.remedy


@cache
def visual(name: str) -> Any:
    """Made once for all examples."""
    return build_visual(name).eval()


@pytest.mark.parametrize("name", VISUAL)
@settings(max_examples=4)
@given(rows=st.integers(1, 4), columns=st.integers(1, 4))
def test_any_multiple_of_32_gives_a_grid(name: str, rows: int, columns: int) -> None:
    encoder = visual(name)
    with torch.no_grad():
        features = encoder(torch.randn(1, 3, 32 * rows, 32 * columns))
    cells = 32 // encoder.stride
    assert features.shape == (1, encoder.channels, cells * rows, cells * columns)
    assert features.min() >= 0
    assert features.max() > 0


@pytest.mark.parametrize("name", AUDIO)
@pytest.mark.parametrize("size", [SPECTROGRAM, (257, 64)])
def test_a_spectrogram_gives_a_map(name: str, size: tuple[int, int]) -> None:
    encoder = build_audio(name).eval()
    with torch.no_grad():
        features = encoder(torch.randn(1, 1, *size))
    assert features.shape[:2] == (1, encoder.channels)
    assert features.shape[2] > 1
    assert features.min() >= 0
    assert features.max() > 0


@pytest.mark.parametrize(("build", "name"), [(build_visual, "tiny"), (build_audio, "tiny"), (build_audio, "compact")])
def test_every_parameter_learns(build: Callable[[str], nn.Module], name: str) -> None:
    encoder = build(name)
    picture = torch.randn(2, 3, 64, 64) if hasattr(encoder, "stride") else torch.randn(2, 1, *SPECTROGRAM)
    encoder.train()(picture).square().mean().backward()
    still = [name for name, p in encoder.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0]
    assert still == []


@pytest.mark.parametrize(("build", "name"), ENCODERS)
def test_trained_norms_span_processes(build: Callable[[str], nn.Module], name: str) -> None:
    norms = [type(layer) for layer in build(name).modules() if isinstance(layer, nn.BatchNorm2d)]
    assert set(norms) == {SynchronisedBatchNorm2d}


@pytest.mark.parametrize(
    ("name", "most_parameters", "most_multiply_adds"), [("compact", 3.5e6, 250e6), ("tiny", 0.5e6, 100e6)]
)
def test_small_audio_encoders_stay_small(name: str, most_parameters: float, most_multiply_adds: float) -> None:
    encoder = build_audio(name).eval()
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        encoder(torch.randn(1, 1, *SPECTROGRAM))
    assert sum(parameter.numel() for parameter in encoder.parameters()) <= most_parameters
    assert counter.get_total_flops() / 2 <= most_multiply_adds


def _torchvision_resnet18() -> Iterator[tuple[str, tuple[int, ...]]]:
    """Names and shapes of torchvision's resnet18 state dict, without the classifier, in its order."""

    def norm(name: str, width: int) -> Iterator[tuple[str, tuple[int, ...]]]:
        for part in ("weight", "bias", "running_mean", "running_var"):
            yield f"{name}.{part}", (width,)
        yield f"{name}.num_batches_tracked", ()

    yield "conv1.weight", (64, 3, 7, 7)
    yield from norm("bn1", 64)
    before = 64
    for layer, width in enumerate((64, 128, 256, 512), start=1):
        for block in range(2):
            name = f"layer{layer}.{block}"
            yield f"{name}.conv1.weight", (width, before, 3, 3)
            yield from norm(f"{name}.bn1", width)
            yield f"{name}.conv2.weight", (width, width, 3, 3)
            yield from norm(f"{name}.bn2", width)
            if before != width:
                yield f"{name}.downsample.0.weight", (width, before, 1, 1)
                yield from norm(f"{name}.downsample.1", width)
            before = width


def test_resnet_has_torchvisions_names() -> None:
    found = [(name, tuple(value.shape)) for name, value in build_visual("resnet18").state_dict().items()]
    assert found == list(_torchvision_resnet18())
    assert len(found) == 120  # torchvision's 122 entries without fc.weight and fc.bias
    assert sum(math.prod(shape) for name, shape in found if name.endswith(("weight", "bias"))) == 11_689_512 - 513_000


def test_the_audio_resnet_differs_in_its_first_layer_alone() -> None:
    shapes = {name: value.shape for name, value in build_audio("resnet18").state_dict().items()}
    differing = [name for name, shape in _torchvision_resnet18() if shapes.pop(name) != shape]
    assert differing == ["conv1.weight"]
    assert shapes == {}
