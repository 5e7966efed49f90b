"""YAMNet against a plain numpy reading of its layers, and what is said about files that will not do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from soundwhere.errors import CheckpointError
from soundwhere.models.encoders.yamnet import FILE_NAME, SameConv2d, YAMNet, load_yamnet

if TYPE_CHECKING:
    from pathlib import Path


def same_convolution(image: np.ndarray, weight: np.ndarray, bias: np.ndarray, stride: int) -> np.ndarray:
    """A 3 x 3 convolution (H, W, C) -> (H', W', D) as TensorFlow documents SAME, one output cell at a time."""
    height, width, _ = image.shape
    out = [-(-side // stride) for side in (height, width)]
    total = [max((cells - 1) * stride + 3 - side, 0) for cells, side in zip(out, (height, width), strict=True)]
    padded = np.pad(image, [(t // 2, t - t // 2) for t in total] + [(0, 0)])
    result = np.zeros((*out, weight.shape[0]))
    for row in range(out[0]):
        for column in range(out[1]):
            patch = padded[row * stride : row * stride + 3, column * stride : column * stride + 3]
            result[row, column] = np.einsum("hwc,dchw->d", patch, weight) + bias
    return result


@pytest.mark.parametrize("size", [(6, 8), (7, 9), (1, 2), (9, 4)])
@pytest.mark.parametrize("stride", [1, 2])
def test_convolutions_pad_as_tensorflow_does(size: tuple[int, int], stride: int) -> None:
    torch.manual_seed(0)
    layer = SameConv2d(3, 4, stride)
    image = torch.randn(1, 3, *size)
    weight, bias = layer.weight.detach().numpy(), layer.bias.detach().numpy()
    expected = same_convolution(image[0].permute(1, 2, 0).numpy(), weight, bias, stride)
    np.testing.assert_allclose(layer(image)[0].permute(1, 2, 0).detach().numpy(), expected, atol=1e-5)


def test_first_layers_agree_with_numpy(shared: Path) -> None:
    """The stem and the first separable layers, time before frequency, straight from the file."""
    weights = {name: value.float().numpy() for name, value in load_file(shared / "weights" / FILE_NAME).items()}
    encoder = YAMNet()
    load_yamnet(encoder, shared / "weights" / FILE_NAME)
    mel = np.random.default_rng(0).normal(-3, 2, (64, 13)).astype(np.float32)
    expected = mel.T[..., None]
    expected = np.maximum(same_convolution(expected, weights["layer1.weight"], weights["layer1.bias"], 2), 0)
    for number, stride in ((2, 1), (3, 2)):
        kernels = weights[f"layer{number}.depthwise.weight"]
        diagonal = np.zeros((len(kernels), len(kernels), 3, 3))
        diagonal[range(len(kernels)), range(len(kernels))] = kernels[:, 0]
        expected = np.maximum(same_convolution(expected, diagonal, weights[f"layer{number}.depthwise.bias"], stride), 0)
        mix = weights[f"layer{number}.pointwise.weight"][:, :, 0, 0]
        expected = np.maximum(expected @ mix.T + weights[f"layer{number}.pointwise.bias"], 0)
    with torch.no_grad():
        features = torch.relu(encoder.layer1(torch.from_numpy(mel.T.copy())[None, None]))
        features = encoder.layer3(encoder.layer2(features))
    np.testing.assert_allclose(features[0].permute(1, 2, 0).numpy(), expected, atol=1e-3)


@pytest.mark.parametrize(("frames", "cells"), [(96, 3), (298, 10), (33, 2), (1, 1)])
def test_cells_of_time_and_frequency(frames: int, cells: int) -> None:
    features = YAMNet()(torch.randn(2, 1, 64, frames))
    assert features.shape == (2, YAMNet.channels, 2, cells)
    assert (features >= 0).all()


def test_nothing_depends_on_the_rest_of_the_batch() -> None:
    torch.manual_seed(0)
    encoder, spectrograms = YAMNet().train(), torch.randn(3, 1, 64, 64)
    torch.testing.assert_close(encoder(spectrograms)[1:2], encoder(spectrograms[1:2]), atol=1e-4, rtol=1e-4)


def test_it_tells_speech_from_noise(shared: Path) -> None:
    """AudioSet's classifier on a talking person and on white noise: a wrong front end or padding would not pass."""
    from soundwhere.media.audio import read_audio
    from soundwhere.media.log_mel import log_mel

    encoder = YAMNet().eval()
    load_yamnet(encoder, shared / "weights" / FILE_NAME)
    values = load_file(shared / "weights" / FILE_NAME)
    speech = torch.from_numpy(read_audio(shared / "data" / "clips" / "two-speakers.mp4"))[:66_150]
    noise = 0.1 * torch.randn(66_150, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        cells = encoder(log_mel(torch.stack([speech, noise]))).mean((-2, -1))
    scores = (cells @ values["classifier.weight"].float().T + values["classifier.bias"].float()).sigmoid()
    assert scores[0].argmax() == 0  # class 0 of AudioSet's list is speech
    assert scores[1, 0] < 0.1 < 0.5 < scores[0, 0]


def test_missing_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SOUNDWHERE_WEIGHTS", str(tmp_path))
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path / "hub"))
    with pytest.raises(CheckpointError, match=r"yamnet\.safetensors is not in") as caught:
        load_yamnet(YAMNet())
    assert "SOUNDWHERE_WEIGHTS" in caught.value.remedy


def test_found_in_the_folder_of_weights(monkeypatch: pytest.MonkeyPatch, shared: Path, tmp_path: Path) -> None:
    monkeypatch.setenv("SOUNDWHERE_WEIGHTS", str(shared / "weights"))
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path))
    encoder = YAMNet()
    load_yamnet(encoder)
    expected = load_file(shared / "weights" / FILE_NAME)["layer14.pointwise.weight"].float()
    torch.testing.assert_close(encoder.get_submodule("layer14").pointwise.weight.detach(), expected)


def test_file_of_that_name_with_other_content(tmp_path: Path) -> None:
    save_file(YAMNet().state_dict(), tmp_path / FILE_NAME)
    with pytest.raises(CheckpointError, match=r"damaged, or another file of that name"):
        load_yamnet(YAMNet(), tmp_path / FILE_NAME)


def test_foreign_and_damaged_files(tmp_path: Path) -> None:
    save_file({"conv1.weight": torch.zeros(3)}, tmp_path / "foreign.safetensors")
    with pytest.raises(CheckpointError, match="does not fit YAMNet"):
        load_yamnet(YAMNet(), tmp_path / "foreign.safetensors")
    (tmp_path / "cut.safetensors").write_bytes(b"\x10\0\0\0\0\0\0\0{}")
    with pytest.raises(CheckpointError, match="cannot be read safely"):
        load_yamnet(YAMNet(), tmp_path / "cut.safetensors")


def test_own_weights_come_back(tmp_path: Path) -> None:
    torch.manual_seed(0)
    own, other = YAMNet(), YAMNet()
    save_file(own.state_dict(), tmp_path / "own.safetensors")
    load_yamnet(other, tmp_path / "own.safetensors")
    for name, value in own.state_dict().items():
        torch.testing.assert_close(other.state_dict()[name], value)
