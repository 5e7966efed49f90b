"""A model as one ONNX file, checked against torch.

The file is one graph for a whole forward pass, image and spectrogram to maps. The values between its parts are outputs
too, by which `soundwhere.inference.runtimes` cuts it: a window of sound is then encoded once for all of its frames.
"""

from __future__ import annotations

import json
import logging
import warnings
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch
from torch import Tensor, nn

from soundwhere import __version__
from soundwhere.config import to_dict
from soundwhere.constants import CLIP_SAMPLES
from soundwhere.data.synthetic import World
from soundwhere.errors import MissingExtraError
from soundwhere.files import atomic_path
from soundwhere.inference.footage import Footage, SoundWindows
from soundwhere.media.image import network_size, normalise, resize
from soundwhere.methods.method import ANSWERS
from soundwhere.types import Localisation

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from soundwhere.methods.method import Network, Step
    from soundwhere.types import Image, Waveform

FORMAT: Final = "soundwhere-onnx-1"
AXES: Final = {
    "image": {0: "batch", 2: "height", 3: "width"},
    "spectrogram": {0: "batch"},
    "features": {0: "batch", 2: "rows", 3: "columns"},
    "heard": {0: "batch"},
    "strength": {0: "batch", 2: "rows", 3: "columns"},
    "prior": {0: "batch", 1: "rows", 2: "columns"},
    "refined": {0: "batch", 3: "rows", 4: "columns"},
    "embeddings": {0: "batch"},
    "similarity": {0: "batch", 2: "rows", 3: "columns"},
    "confidence": {0: "batch"},
}
"""The values of the graph, and which of their sizes may change."""
_EDGES: Final = {"rename_inputs": False, "rename_outputs": False}  # the names above stay
TOLERANCE: Final = 1e-3  # of a map, whose range is [-1, 1]; what the file may differ from torch


@dataclass(frozen=True)
class Exported:
    """A file that was written.

    Attributes:
        path: The file.
        differences: Largest absolute difference from torch, by what was compared: maps, confidences and embeddings.
    """

    path: Path
    differences: dict[str, float]


class _Exported(nn.Module):
    """One step of a forward pass as a module of its own, which gives its tensors as a tuple."""

    def __init__(self, model: Network, step: Step) -> None:
        super().__init__()
        self.model = model
        self.step = step

    def forward(self, *values: Tensor) -> tuple[Tensor, ...]:
        """Do the step."""
        found = getattr(self.model, self.step.method)(*values)
        if isinstance(found, Localisation):
            return found.similarity, found.confidence, found.embeddings
        return (found,) if isinstance(found, Tensor) else tuple(found)


def export_onnx(model: Network, path: Path, clip: Path | None = None) -> Exported:
    """Write a model as an ONNX file and compare what it answers with what torch answers.

    Any number of pictures goes in, of any size in multiples of the encoder's stride. The metadata holds the
    configuration.

    Args:
        model: In eval mode, on the CPU.
        path: The file, ending in `.onnx`.
        clip: A video whose first frames are compared, too.

    Raises:
        MissingExtraError: onnx, onnxscript or onnxruntime is not installed.
    """
    try:
        import onnx
        import onnxruntime  # noqa: F401 - needed for the comparison, which comes last
        import onnxscript  # noqa: F401 - needed by torch
    except ImportError as error:
        raise MissingExtraError(str(error.name), "export") from error
    # Each step becomes a graph of its own and they are joined, so that every step takes its sizes from its own inputs
    # and still works when it is cut out.
    values = dict(zip(("image", "spectrogram"), _random(model, batch=2, rows=3, columns=4), strict=True))
    graphs = []
    with _exporting():
        for number, step in enumerate(model.steps):
            graphs.append(onnx.compose.add_prefix(_graph(model, step, values), f"{number}.", **_EDGES))
    between = sorted(set(values) - {"image", "spectrogram", *ANSWERS})
    joined = onnx.helper.make_graph(
        [node for graph in graphs for node in graph.graph.node],
        model.config.name,
        [_described(name, values[name]) for name in ("image", "spectrogram")],
        [_described(name, values[name]) for name in (*ANSWERS, *between)],
        initializer=[weights for graph in graphs for weights in graph.graph.initializer],
    )
    whole = onnx.helper.make_model(
        joined, opset_imports=graphs[0].opset_import, ir_version=graphs[0].ir_version, producer_name="soundwhere"
    )
    about = {"format": FORMAT, "version": __version__, "model": json.dumps(to_dict(model.config))}
    onnx.helper.set_model_props(whole, about)
    with atomic_path(path) as temporary:
        temporary.write_bytes(whole.SerializeToString())
    return Exported(path, compare(model, path, clip))


def _graph(model: Network, step: Step, values: dict[str, Tensor]) -> Any:
    """Write a step as an ONNX graph, and add what it gives to the values."""
    inputs = tuple(values[name] for name in step.inputs)
    sizes = tuple(dict.fromkeys(_axes(name), torch.export.Dim.DYNAMIC) for name in step.inputs)
    module = _Exported(model, step).eval()
    program = torch.export.export(module, inputs, dynamic_shapes={"values": sizes}, strict=step.strict)
    written = torch.onnx.export(
        program, inputs, dynamo=True, verbose=False, input_names=step.inputs, output_names=step.outputs
    )
    assert written is not None
    values.update(zip(step.outputs, module(*inputs), strict=True))
    return written.model_proto


def _axes(name: str) -> dict[int, str]:
    """Which sizes of a value may change: its batch, if nothing else is known."""
    return AXES.get(name, {0: "batch"})


def _described(name: str, value: Tensor) -> Any:
    """Name, type and shape of a value, with words for sizes that may change."""
    from onnx import TensorProto, helper

    shape = [_axes(name).get(axis, size) for axis, size in enumerate(value.shape)]
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


@torch.no_grad()
def compare(model: Network, path: Path, clip: Path | None = None) -> dict[str, float]:
    """Largest absolute differences between a file's answers and torch's: noise of two sizes, made-up scenes, a clip."""
    from onnxruntime import InferenceSession

    session = InferenceSession(path, providers=["CPUExecutionProvider"])
    differences = {}
    for name, (image, spectrogram) in _inputs(model, clip):
        expected = model(image, spectrogram)
        given = {"image": image.numpy(), "spectrogram": spectrogram.numpy()}
        for what, values in zip(ANSWERS, session.run(ANSWERS, given), strict=True):
            difference = (torch.from_numpy(values) - getattr(expected, what)).abs().max()
            differences[f"{what}, {name}"] = float(difference)
    return differences


def _inputs(model: Network, clip: Path | None) -> Iterator[tuple[str, tuple[Tensor, Tensor]]]:
    side = model.config.frame_px
    cells = side // model.stride_px
    yield f"1 noise picture of {side} x {side}", _random(model, 1, cells, cells)
    yield f"3 of {side} x {side + 3 * model.stride_px}", _random(model, 3, cells, cells + 3)
    scenes = [World(seed=0, size=(side, side)).scene(index) for index in range(2)]
    yield "2 made-up scenes", _prepared(model, [scene.image for scene in scenes], [scene.mixture for scene in scenes])
    if clip is not None:
        footage = Footage.open(clip)
        windows, size = SoundWindows(footage.sound, 0.0), network_size(*footage.size, side, model.stride_px)
        frames = list(islice(footage.frames(1.0), 4))
        sounds = [windows.at(frame.time_s) for frame in frames]
        yield f"{len(frames)} frames of {clip.name}", _prepared(model, [resize(f.image, size) for f in frames], sounds)


def _prepared(model: Network, pictures: list[Image], sounds: list[Waveform]) -> tuple[Tensor, Tensor]:
    return normalise(np.stack(pictures)), model.spectrogram(torch.from_numpy(np.stack(sounds)))


def _random(model: Network, batch: int, rows: int, columns: int) -> tuple[Tensor, Tensor]:
    """Noise for pictures of so many cells, and for 3 s of sound."""
    generator = torch.Generator().manual_seed(0)
    size = (batch, 3, rows * model.stride_px, columns * model.stride_px)
    waveform = 0.1 * torch.randn(batch, CLIP_SAMPLES, generator=generator)
    return torch.randn(*size, generator=generator), model.spectrogram(waveform)


@contextmanager
def _exporting() -> Iterator[None]:
    """Without torch's fused Transformer layer, which has no counterpart in ONNX, and without the exporter's chatter."""
    fused = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(logging.NOTSET)
        torch.backends.mha.set_fastpath_enabled(fused)
