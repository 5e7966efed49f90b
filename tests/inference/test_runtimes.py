from __future__ import annotations

import importlib.util
import json
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from torch import nn

from soundwhere.cli.main import run
from soundwhere.errors import CheckpointError, ConfigError, MissingExtraError
from soundwhere.inference.export import ANSWERS, TOLERANCE, export_onnx
from soundwhere.inference.localiser import Localiser
from soundwhere.inference.networks import Compiled, fold_norms, load_network
from soundwhere.inference.runtimes import load, opens_aside
from soundwhere.methods.files import write_model
from soundwhere.methods.scav.config import NAMED
from soundwhere.methods.scav.model import SCAV

if TYPE_CHECKING:
    from pathlib import Path

needs_onnx = pytest.mark.skipif(importlib.util.find_spec("onnx") is None, reason="needs the extra `export`")
RUNTIMES = [
    "onnx",
    pytest.param(
        "openvino",
        marks=pytest.mark.skipif(importlib.util.find_spec("openvino") is None, reason="needs the extra `openvino`"),
    ),
]
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def tiny() -> SCAV:
    """As small as it can be, for the exporter takes its time."""
    torch.manual_seed(0)
    small = replace(NAMED["scav-tiny"], dimension=32, decoupler_layers=1, decoupler_heads=2, maps="shaped")
    return SCAV(small).eval()


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory, tiny: SCAV) -> Path:
    path = tmp_path_factory.mktemp("exported") / "tiny.onnx"
    differences = export_onnx(tiny, path).differences
    assert len(differences) == 9
    assert max(differences.values()) < 1e-4
    return path


@needs_onnx
@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("size", [(1, 128, 128), (3, 64, 160)])
@torch.inference_mode()
def test_every_runtime_gives_what_torch_gives(
    exported: Path, tiny: SCAV, runtime: str, size: tuple[int, int, int]
) -> None:
    batch, height, width = size
    image, sound = torch.randn(batch, 3, height, width), 0.1 * torch.randn(batch, 66_150)
    compiled = load_network(exported, runtime, CPU)
    assert (compiled.config, compiled.sources, compiled.stride_px) == (tiny.config, 2, tiny.stride_px)
    assert (compiled.needs, compiled.device) == (frozenset(), CPU)
    for sources in (None, 1, 2, 4):
        expected, found = (model.localise(model.see(image), model.hear(sound), sources) for model in (tiny, compiled))
        assert found.similarity.shape[1] == sources or sources is None
        for answer in ANSWERS:
            torch.testing.assert_close(getattr(found, answer), getattr(expected, answer), atol=1e-4, rtol=1e-4)


@needs_onnx
@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("sources", [None, 3])
def test_a_clip_through_every_runtime(
    exported: Path, tiny: SCAV, squares_path: Path, runtime: str, sources: int | None
) -> None:
    expected = Localiser(tiny, "cpu", sources=sources).localise(squares_path, end_s=2.0)
    found = Localiser(exported, "cpu", runtime=runtime, sources=sources).localise(squares_path, end_s=2.0)
    assert found.model == tiny.config
    np.testing.assert_allclose(found.maps, expected.maps, atol=2e-3)
    np.testing.assert_allclose(found.confidence, expected.confidence, atol=1e-3)


@needs_onnx
def test_the_file_is_one_graph_that_says_what_it_is(exported: Path, tiny: SCAV) -> None:
    import onnx
    import onnxruntime

    onnx.checker.check_model(onnx.load(exported), full_check=True)
    session = onnxruntime.InferenceSession(exported, providers=["CPUExecutionProvider"])
    assert {value.name: value.shape for value in session.get_inputs()} == {
        "image": ["batch", 3, "height", "width"],
        "spectrogram": ["batch", 1, 552, 121],
    }
    assert [value.name for value in session.get_outputs()][:3] == list(ANSWERS)
    assert '"scav-tiny"' in session.get_modelmeta().custom_metadata_map["model"]
    assert isinstance(load_network(exported, None, CPU), Compiled)


@needs_onnx
def test_a_file_that_knows_of_one_method_only(exported: Path, tiny: SCAV, tmp_path: Path) -> None:
    """As version 0.1 wrote it: the same graph, with neither the method's name nor how it was trained."""
    import onnx

    old = onnx.load(exported)
    [settings] = [entry for entry in old.metadata_props if entry.key == "model"]
    kept = {name: value for name, value in json.loads(settings.value).items() if name not in tiny.config.training}
    del kept["family"]
    settings.value = json.dumps(kept)
    onnx.save(old, tmp_path / "old.onnx")
    compiled = load_network(tmp_path / "old.onnx", "onnx", CPU)
    assert compiled.config == tiny.config
    image, sound = torch.randn(1, 3, 64, 64), 0.1 * torch.randn(1, 66_150)
    with torch.inference_mode():
        expected, found = (model.localise(model.see(image), model.hear(sound)) for model in (tiny, compiled))
    torch.testing.assert_close(found.similarity, expected.similarity, atol=1e-4, rtol=1e-4)


@needs_onnx
def test_stage_one_alone_and_the_command(
    tiny: SCAV, clip_path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_model(tmp_path / "one.safetensors", tiny.without_stage_two())
    out = tmp_path / "one.onnx"
    arguments = ["export", "--onnx", "--model", str(tmp_path / "one.safetensors"), "--out", str(out)]
    assert run([*arguments, "--clip", str(clip_path)]) == 0
    printed = capsys.readouterr().out
    assert "2 frames of clip.mp4" in printed
    assert max(float(line.split()[0]) for line in printed.splitlines()[2:]) < TOLERANCE
    result = Localiser(out, "cpu").localise(clip_path)
    assert result.sources == 1


@pytest.mark.parametrize("name", list(NAMED))
@torch.inference_mode()
def test_folding_norms_changes_nothing_but_their_number(name: str) -> None:
    torch.manual_seed(0)
    model = SCAV(NAMED[name]).eval()
    norms = [layer for layer in model.modules() if isinstance(layer, nn.BatchNorm2d)]
    for norm in norms:  # as if trained
        for values in (norm.weight, norm.bias, norm.running_mean, norm.running_var):
            assert values is not None
            values.copy_(0.5 + torch.rand_like(values))
    picture, sound = torch.randn(1, 3, 64, 96), torch.randn(1, 1, 96, 64)
    expected = model.see(picture), model.embed(sound)
    fold_norms(model)
    assert norms
    assert not any(isinstance(layer, nn.BatchNorm2d) for layer in model.modules())
    torch.testing.assert_close((model.see(picture), model.embed(sound)), expected, atol=1e-3, rtol=1e-3)


def test_what_cannot_run_says_what_to_do(tiny: SCAV, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="export --onnx"):
        load(tiny, "onnx", "cpu")
    with pytest.raises(ConfigError, match="cannot run"):
        load(tmp_path / "model.onnx", "torch", "cpu")
    with pytest.raises(ConfigError, match="openvino"):
        load(tiny, "tensorrt", "cpu")
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(CheckpointError, match="does not exist"):
        load(tmp_path / "model.onnx", "onnx", "cpu")
    (tmp_path / "model.onnx").touch()
    with pytest.raises(MissingExtraError, match="soundwhere\\[export\\]"):
        load(tmp_path / "model.onnx", "onnx", "cpu")


@needs_onnx
def test_files_that_are_no_models(tmp_path: Path, exported: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import onnx

    with pytest.raises(CheckpointError, match="does not exist"):
        load(tmp_path / "none.onnx", None, "cpu")
    (tmp_path / "noise.onnx").write_bytes(b"\xff" * 100)
    with pytest.raises(CheckpointError, match="not a readable"):
        load(tmp_path / "noise.onnx", None, "cpu")
    other = onnx.load(exported)
    del other.metadata_props[:]
    onnx.save(other, tmp_path / "other.onnx")
    with pytest.raises(CheckpointError, match="not a model of soundwhere"):
        load(tmp_path / "other.onnx", None, "cpu")
    spoilt = onnx.load(exported)
    next(entry for entry in spoilt.metadata_props if entry.key == "model").value = "[" * 9999
    onnx.save(spoilt, tmp_path / "spoilt.onnx")
    with pytest.raises(CheckpointError, match="does not say what its model is"):
        load(tmp_path / "spoilt.onnx", None, "cpu")
    for package, extra in (("onnxruntime", "export"), ("openvino", "openvino")):
        monkeypatch.setitem(sys.modules, package, None)
        with pytest.raises(MissingExtraError, match=f"soundwhere\\[{extra}\\]"):
            load(exported, "onnx" if package == "onnxruntime" else package, "cpu")


@needs_onnx
def test_doctor_looks_into_exported_models(exported: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor", str(exported)]) == 0
    assert capsys.readouterr().out.startswith(f"{exported}: scav-tiny, ")


def test_which_models_are_opened_aside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("soundwhere.inference.runtimes._maybe_gpu", lambda: True)
    assert opens_aside("scav-tiny", None, "cpu")
    assert opens_aside("scav-tiny", "onnx", "auto")
    assert not opens_aside("scav-tiny", None, "auto")  # torch may have a card to compute on
    assert not opens_aside("scav-tiny", "torch", "cpu")
    assert not opens_aside("scav-r18", None, "cpu")  # does not ship
    monkeypatch.setattr("soundwhere.inference.runtimes._maybe_gpu", lambda: False)
    assert opens_aside("scav-tiny", None, "auto")
