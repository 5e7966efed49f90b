"""Built-in models in onnxruntime, against the same models in torch."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest
from safetensors import safe_open

from soundwhere.data.synthetic import World
from soundwhere.errors import ConfigError
from soundwhere.inference import runtimes
from soundwhere.inference.graphs import ABOUT, PARTS, Graphs, graph_folder, has_graphs
from soundwhere.inference.localiser import Localiser
from soundwhere.inference.networks import InTorch
from soundwhere.inference.runtimes import load
from soundwhere.methods.files import MODEL_PREFIX, SHIPPED, WEIGHTS, load_model, read_arrays

if TYPE_CHECKING:
    from pathlib import Path

needs_onnx = pytest.mark.skipif(importlib.util.find_spec("onnx") is None, reason="needs the extra `export`")


def test_every_built_in_model_has_graphs() -> None:
    assert SHIPPED
    assert all(map(has_graphs, SHIPPED))
    assert not has_graphs("scav-r18")


@needs_onnx
def test_the_graphs_that_ship_are_those_that_would_be_written(tmp_path: Path) -> None:
    from soundwhere.inference.shipping import write_graphs

    write_graphs(load_model("scav-tiny"), tmp_path)
    for name in (ABOUT, *(f"{part}.onnx" for part in PARTS)):
        assert (tmp_path / name).read_bytes() == (graph_folder("scav-tiny") / name).read_bytes(), (
            f"{name}: run scripts/ship_graphs.py"
        )


@needs_onnx
@pytest.mark.parametrize("name", SHIPPED)
def test_graphs_hold_no_weights_and_name_those_of_the_file(name: str) -> None:
    import onnx

    with safe_open(WEIGHTS / f"{name}.safetensors", "np") as file:
        stored = {key.removeprefix(MODEL_PREFIX): file.get_slice(key).get_shape() for key in file.keys()}  # noqa: SIM118
    used = set()
    for part in PARTS:
        graph = onnx.load(graph_folder(name) / f"{part}.onnx", load_external_data=False).graph
        for tensor in graph.initializer:
            if tensor.data_location == onnx.TensorProto.EXTERNAL:
                assert list(tensor.dims) == stored[tensor.name]
                used.add(tensor.name)
            else:
                assert np.prod(tensor.dims) <= 4096
    only_trained = {"bias", "log_contrast", "log_presence"} if name == "scav-wide" else set()  # scales of its losses
    assert {key for key in stored if not key.endswith(("num_batches_tracked", "steps"))} - only_trained == used
    assert sum(path.stat().st_size for path in graph_folder(name).iterdir()) < 2e6


@pytest.mark.parametrize("name", SHIPPED)
@pytest.mark.parametrize("sources", [None, 1])
def test_graphs_answer_as_torch_does(name: str, sources: int | None) -> None:
    graphs, network = load(name, "onnx", "cpu"), load(name, "torch", "cpu")
    assert isinstance(graphs, Graphs)
    assert isinstance(network, InTorch)
    facts = [(each.config, each.sources, each.stride_px, each.device) for each in (graphs, network)]
    assert facts[0] == facts[1]
    scenes = [World(seed=3, size=(128, 192)).scene(number) for number in range(3)]
    sounds = np.stack([scene.mixture for scene in scenes])
    pictures = np.stack([scene.image for scene in scenes])[:2]
    found, expected = (
        each.localise(pictures, [0, 1, 1], each.hear(sounds), sources=sources) for each in (graphs, network)
    )
    assert expected.maps.std() > 0.01
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.dtype == np.float32
        np.testing.assert_allclose(ours, theirs, atol=1e-3, rtol=1e-3)


def test_weights_that_were_stored_in_half_are_single() -> None:
    arrays = read_arrays(WEIGHTS / "scav-tiny.safetensors", MODEL_PREFIX)
    assert {array.dtype for array in arrays.values()} == {np.dtype("float32"), np.dtype("int64")}
    expected = load_model("scav-tiny").state_dict()
    assert all(np.array_equal(arrays[name], tensor.numpy()) for name, tensor in expected.items())


def test_who_computes_what(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(runtimes, "_SIGNS", ())
    assert isinstance(load("scav-tiny", None, "auto"), Graphs)
    assert isinstance(load("scav-tiny", None, "cpu", sources=2), Graphs)
    assert isinstance(load("scav-tiny", None, "cpu", sources=3), InTorch)
    assert isinstance(load(load_model("scav-tiny"), None, "cpu"), InTorch)
    with pytest.raises(ConfigError, match="at most 2 sources"):
        load("scav-tiny", "onnx", "cpu", sources=3)
    with pytest.raises(ConfigError, match="tpu"):
        load("scav-tiny", "onnx", "tpu")
    (tmp_path / "card").touch()
    monkeypatch.setattr(runtimes, "_SIGNS", (str(tmp_path / "card"),))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert isinstance(load("scav-tiny", None, "auto"), InTorch)  # torch was asked, and finds none
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert isinstance(load("scav-tiny", None, "auto"), Graphs)


def test_a_clip_by_both_ways(squares_path: Path) -> None:
    found, expected = (Localiser("scav-tiny", "cpu", runtime=each).localise(squares_path) for each in ("onnx", "torch"))
    np.testing.assert_allclose(found.maps, expected.maps, atol=2e-3)
    np.testing.assert_array_equal(found.sounding, expected.sounding)


def test_the_command_does_without_what_takes_long_to_import(squares_path: Path, tmp_path: Path) -> None:
    script = (
        "import sys; from soundwhere.cli.main import run; "
        f"code = run([{str(squares_path)!r}, '--model', 'scav-tiny', '--device', 'cpu', '--out', {str(tmp_path)!r}, "
        "'--formats', 'mp4,png,json,csv,npz,coco,html', '--end', '1']); "
        "print(code, sorted({'torch', 'scipy', 'onnx', 'typeguard', 'asyncio'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout.splitlines()[-1] == "0 []", done.stderr
