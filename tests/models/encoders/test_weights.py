"""Weights by name and by path, and what is said about files that will not do."""

from __future__ import annotations

import hashlib
import os
import urllib.request
from typing import TYPE_CHECKING

import pytest
import torch
from safetensors.torch import save_file

from soundwhere.errors import CheckpointError
from soundwhere.methods.files import load_model
from soundwhere.models.encoders import build_audio, build_visual, weights
from soundwhere.models.encoders.resnet import ResNet18
from soundwhere.models.encoders.weights import Pretrained, load_weights, read_weights

if TYPE_CHECKING:
    from pathlib import Path


class Hostile:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, ("unpickled",)


def _tiny_state() -> dict[str, torch.Tensor]:
    torch.manual_seed(1)
    return build_visual("tiny").state_dict()


@pytest.fixture
def published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pretrained:
    """A published weight file for `tiny`, at a URL, with empty caches."""
    (tmp_path / "host").mkdir()
    source = tmp_path / "host" / "tiny-00000000.pth"
    torch.save(_tiny_state(), source)
    pretrained = Pretrained(source.as_uri(), hashlib.sha256(source.read_bytes()).hexdigest())
    monkeypatch.setitem(weights.IMAGENET, "tiny", pretrained)
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path / "hub"))
    monkeypatch.delenv("SOUNDWHERE_WEIGHTS", raising=False)
    return pretrained


def _assert_loaded(encoder: torch.nn.Module) -> None:
    for name, value in _tiny_state().items():
        torch.testing.assert_close(encoder.state_dict()[name], value, rtol=0, atol=0)


@pytest.mark.parametrize("suffix", [".pth", ".safetensors"])
def test_a_file_fills_the_encoder(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"encoder{suffix}"
    if suffix == ".pth":
        torch.save(_tiny_state(), path)
    else:
        save_file(_tiny_state(), path)
    encoder = build_visual("tiny")
    load_weights(encoder, "tiny", str(path))
    _assert_loaded(encoder)


def test_none_leaves_the_encoder_as_it_is() -> None:
    encoder = build_visual("tiny")
    before = {name: value.clone() for name, value in encoder.state_dict().items()}
    load_weights(encoder, "tiny", "none")
    assert all(torch.equal(value, before[name]) for name, value in encoder.state_dict().items())


def test_a_torchvision_file_loads_without_its_classifier(tmp_path: Path) -> None:
    state = ResNet18().state_dict() | {"fc.weight": torch.zeros(1000, 512), "fc.bias": torch.zeros(1000)}
    torch.save(state, tmp_path / "resnet.pth")
    encoder = ResNet18()
    load_weights(encoder, "resnet18", str(tmp_path / "resnet.pth"))
    assert all(torch.equal(value, state[name]) for name, value in encoder.state_dict().items())


@pytest.mark.parametrize("place", ["hub/checkpoints", "folder"])
def test_imagenet_weights_are_found(
    published: Pretrained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.setenv("SOUNDWHERE_WEIGHTS", str(tmp_path / "folder"))
    (tmp_path / place).mkdir(parents=True)
    (tmp_path / "host" / published.file_name).rename(tmp_path / place / published.file_name)
    encoder = build_visual("tiny")
    load_weights(encoder, "tiny", "imagenet")
    _assert_loaded(encoder)


def test_nothing_is_downloaded_unasked(published: Pretrained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(urllib.request, "urlopen", lambda *_, **__: pytest.fail("went to the network"))
    with pytest.raises(CheckpointError) as caught:
        load_weights(build_visual("tiny"), "tiny", "imagenet")
    assert published.url in caught.value.remedy
    assert str(tmp_path / "hub" / "checkpoints") in caught.value.remedy
    assert "SOUNDWHERE_WEIGHTS" in caught.value.remedy
    assert "--download" in caught.value.remedy


def test_a_download_is_checked_and_kept(published: Pretrained, tmp_path: Path) -> None:
    encoder = build_visual("tiny")
    load_weights(encoder, "tiny", "imagenet", download=True)
    _assert_loaded(encoder)
    assert [path.name for path in (tmp_path / "hub/checkpoints").iterdir()] == [published.file_name]
    (tmp_path / "host" / published.file_name).unlink()
    load_weights(encoder, "tiny", "imagenet")


def test_a_damaged_download_leaves_nothing_behind(published: Pretrained, tmp_path: Path) -> None:
    source = tmp_path / "host" / published.file_name
    source.write_bytes(source.read_bytes()[:-100])
    with pytest.raises(CheckpointError, match="damaged"):
        load_weights(build_visual("tiny"), "tiny", "imagenet", download=True)
    assert not (tmp_path / "hub").exists()


def test_an_unreachable_host_is_named(published: Pretrained, tmp_path: Path) -> None:
    (tmp_path / "host" / published.file_name).unlink()
    with pytest.raises(CheckpointError, match="cannot be downloaded") as caught:
        load_weights(build_visual("tiny"), "tiny", "imagenet", download=True)
    assert published.url in caught.value.message


def test_a_published_name_with_other_content_is_damaged(published: Pretrained, tmp_path: Path) -> None:
    path = tmp_path / published.file_name
    torch.save({}, path)
    with pytest.raises(CheckpointError, match="damaged") as caught:
        read_weights(path)
    assert published.url in caught.value.remedy


def test_an_architecture_without_imagenet_weights_says_so() -> None:
    with pytest.raises(CheckpointError, match=r"no ImageNet weights for 'tiny'.*resnet18, mobilenet_v2") as caught:
        load_weights(build_visual("tiny"), "tiny", "imagenet")
    assert "none" in caught.value.remedy


@pytest.mark.parametrize("suffix", [".pth", ".safetensors"])
@pytest.mark.parametrize("damage", ["text", "empty", "truncated", "noise", "hostile", "list", "nested"])
def test_a_file_that_is_no_weights_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str, damage: str
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / f"bad{suffix}"
    match damage:
        case "text":
            path.write_text("epoch,loss\n1,0.5\n")
        case "empty":
            path.touch()
        case "noise":
            path.write_bytes(torch.randint(256, (5000,), generator=torch.Generator().manual_seed(0)).byte().numpy())
        case "truncated" if suffix == ".pth":
            torch.save(_tiny_state(), path)
            path.write_bytes(path.read_bytes()[:4000])
        case "truncated":
            save_file(_tiny_state(), path)
            path.write_bytes(path.read_bytes()[:-4000])
        case "hostile":
            torch.save({"layers.0.0.weight": Hostile()}, path)
        case "list":
            torch.save([torch.zeros(2)], path)
        case "nested":
            torch.save({"state_dict": _tiny_state()}, path)
    with pytest.raises(CheckpointError) as caught:
        load_weights(build_visual("tiny"), "tiny", str(path))
    assert str(path) in caught.value.message
    assert caught.value.remedy
    assert not (tmp_path / "unpickled").exists()


@pytest.mark.parametrize("name", ["missing.pth", "."])
def test_no_file_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(CheckpointError, match="no weight file") as caught:
        read_weights(tmp_path / name)
    assert "imagenet" in caught.value.remedy


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda state: state.pop("layers.0.0.weight"), "1 missing, such as layers.0.0.weight"),
        (lambda state: state.update(extra=torch.zeros(1)), "1 unknown, such as extra"),
        (lambda state: state.update({"fc.weight": torch.zeros(1)}), "1 unknown, such as fc.weight"),
        (
            lambda state: state.update({"layers.0.0.weight": torch.zeros(1)}),
            "1 of another shape, such as layers.0.0.weight",
        ),
    ],
)
def test_weights_of_another_model_are_refused(tmp_path: Path, change: object, complaint: str) -> None:
    state = _tiny_state()
    change(state)  # type: ignore[operator]
    torch.save(state, tmp_path / "other.pth")
    encoder = build_visual("tiny")
    before = {name: value.clone() for name, value in encoder.state_dict().items()}
    with pytest.raises(CheckpointError, match=complaint):
        load_weights(encoder, "tiny", str(tmp_path / "other.pth"))
    assert all(torch.equal(value, before[name]) for name, value in encoder.state_dict().items())


def test_an_encoder_of_spectrograms_sees_a_photo_in_grey(tmp_path: Path) -> None:
    torch.manual_seed(0)
    eyes, ears = build_visual("mobilenet_v2").eval(), build_audio("mobilenet_v2").eval()
    save_file(eyes.state_dict(), tmp_path / "eyes.safetensors")
    load_weights(ears, "mobilenet_v2", str(tmp_path / "eyes.safetensors"))
    grey = torch.rand(1, 1, 64, 96)
    torch.testing.assert_close(ears(grey), eyes(grey.expand(-1, 3, -1, -1)), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("architecture", "model"), [("mobilenet_v2", "scav-mobile"), ("tiny", "scav-tiny")])
def test_the_package_has_the_eye_of_its_own_models(architecture: str, model: str) -> None:
    encoder = build_visual(architecture)
    load_weights(encoder, architecture, "built-in")
    own = load_model(model).get_submodule("visual").state_dict()
    assert all(torch.equal(value, own[name]) for name, value in encoder.state_dict().items())
    with pytest.raises(CheckpointError, match="The package has no weights for 'resnet18'"):
        load_weights(build_visual("resnet18"), "resnet18", "built-in")


def test_the_built_in_eye_is_imagenets(shared: Path) -> None:
    one, other = build_visual("mobilenet_v2"), build_visual("mobilenet_v2")
    load_weights(one, "mobilenet_v2", "built-in")
    load_weights(other, "mobilenet_v2", str(shared / "weights/mobilenet_v2-b0353104.pth"))
    for name, value in other.state_dict().items():
        assert torch.allclose(one.state_dict()[name].float(), value.float(), rtol=1e-3, atol=1e-7), name
