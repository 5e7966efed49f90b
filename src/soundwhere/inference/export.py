"""A model as one ONNX file, checked against torch.

The file is one graph for a whole forward pass, image and spectrogram to maps. The values between its parts are outputs
too, by which `soundwhere.inference.networks` cuts it: a window of sound is then encoded once for all of its frames.
"""

from __future__ import annotations

import io
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
from torch.nn import functional as F

from soundwhere import __version__
from soundwhere.config import to_dict
from soundwhere.constants import CLIP_SAMPLES
from soundwhere.data.synthetic import World
from soundwhere.errors import MissingExtraError
from soundwhere.files import write_bytes
from soundwhere.inference.footage import Footage, SoundWindows
from soundwhere.media.image import network_size, normalise, resize
from soundwhere.methods.method import ANSWERS
from soundwhere.types import Localisation

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from soundwhere.methods.method import Network, Step
    from soundwhere.types import Image, Waveform

FORMAT: Final = "soundwhere-onnx-1"
AXES: Final = {
    "pictures": {0: "batch", 1: "height", 2: "width"},
    "image": {0: "batch", 2: "height", 3: "width"},
    "spectrogram": {0: "batch"},
    "features": {0: "batch", 2: "rows", 3: "columns"},
    "heard": {0: "batch"},
    "strength": {0: "batch", 2: "rows", 3: "columns"},
    "prior": {0: "batch", 1: "rows", 2: "columns"},
    "refined": {0: "batch", 3: "rows", 4: "columns"},
    "embeddings": {0: "batch"},
    "similarity": {0: "batch", 2: "map_rows", 3: "map_columns"},  # which may be finer than the features
    "sharpened": {0: "batch", 2: "heat_rows", 3: "heat_columns"},
    "maps": {0: "batch", 2: "heat_rows", 3: "heat_columns"},
    "confidence": {0: "batch"},
}
"""The values of the graph, and which of their sizes may change."""
_EDGES: Final = {"rename_inputs": False, "rename_outputs": False}  # the names above stay
_OPSET: Final = 18
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


class Exportable(nn.Module):
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
        MissingExtraError: onnx is not installed.
    """
    try:
        import onnx
        import onnxruntime  # noqa: F401 - needed for the comparison, which comes last
    except ImportError as error:
        raise MissingExtraError(str(error.name), "export") from error
    inputs = dict(zip(("image", "spectrogram"), noise(model, batch=2, rows=3, columns=4), strict=True))
    whole = joined_graph(
        {step: Exportable(model, step) for step in (*model.steps, *model.finish)}, inputs, ANSWERS, model.config.name
    )
    about = {"format": FORMAT, "version": __version__, "model": json.dumps(to_dict(model.config))}
    onnx.helper.set_model_props(whole, about)
    write_bytes(path, whole.SerializeToString())
    return Exported(path, compare(model, path, clip))


def joined_graph(steps: dict[Step, nn.Module], inputs: dict[str, Tensor], answers: Sequence[str], name: str) -> Any:
    """Steps that follow each other as one ONNX graph, which gives the values between them, too.

    Each step becomes a graph of its own and they are joined, so that every step takes its sizes from its own inputs and
    still works when it is cut out.

    Args:
        steps: Each with the module that does it.
        inputs: What goes in, by name.
        answers: Names of the values that come out first.
        name: Of the graph.
    """
    import onnx

    values = dict(inputs)
    graphs = []
    with _exporting():
        for number, (step, module) in enumerate(steps.items()):
            graphs.append(onnx.compose.add_prefix(_graph(module.eval(), step, values), f"{number}.", **_EDGES))
    between = sorted(set(values) - {*inputs, *answers})
    joined = onnx.helper.make_graph(
        [node for graph in graphs for node in graph.graph.node],
        name,
        [_described(name, values[name]) for name in inputs],
        [_described(name, values[name]) for name in (*answers, *between)],
        initializer=[weights for graph in graphs for weights in graph.graph.initializer],
    )
    return onnx.helper.make_model(
        joined, opset_imports=graphs[0].opset_import, ir_version=graphs[0].ir_version, producer_name="soundwhere"
    )


def _graph(module: nn.Module, step: Step, values: dict[str, Tensor]) -> Any:
    """Write a step as an ONNX graph, and add what it gives to the values.

    By tracing: torch's newer exporter takes a minute and a half for what this one does in two seconds, and changes
    weights. What a trace takes for constant, `compare` would notice, for it asks for other sizes.
    """
    import onnx

    inputs = tuple(values[name] for name in step.inputs)
    values.update(zip(step.outputs, module(*inputs), strict=True))
    written = io.BytesIO()
    torch.onnx.export(
        module,
        inputs,
        written,  # type: ignore[arg-type] # any file will do
        dynamo=False,
        input_names=list(step.inputs),
        output_names=list(step.outputs),
        dynamic_axes={name: _axes(name) for name in (*step.inputs, *step.outputs)},
        opset_version=_OPSET,
        do_constant_folding=False,  # left to who runs it, as is folding norms: weights stay as they are
        training=torch.onnx.TrainingMode.PRESERVE,
    )
    return onnx.load_model_from_string(written.getvalue())


def _axes(name: str) -> dict[int, str]:
    """Which sizes of a value may change: its batch, if nothing else is known."""
    return AXES.get(name, {0: "batch"})


def _described(name: str, value: Tensor) -> Any:
    """Name, type and shape of a value, with words for sizes that may change."""
    from onnx import TensorProto, helper

    shape = [_axes(name).get(axis, size) for axis, size in enumerate(value.shape)]
    kind = TensorProto.FLOAT if value.is_floating_point() else TensorProto.UINT8
    return helper.make_tensor_value_info(name, kind, shape)


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
    yield f"1 noise picture of {side} x {side}", noise(model, 1, cells, cells)
    yield f"3 of {side} x {side + 3 * model.stride_px}", noise(model, 3, cells, cells + 3)
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


def noise(model: Network, batch: int, rows: int, columns: int) -> tuple[Tensor, Tensor]:
    """Noise for pictures of so many cells, and for 3 s of sound."""
    generator = torch.Generator().manual_seed(0)
    size = (batch, 3, rows * model.stride_px, columns * model.stride_px)
    waveform = 0.1 * torch.randn(batch, CLIP_SAMPLES, generator=generator)
    return torch.randn(*size, generator=generator), model.spectrogram(waveform)


def _attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    _dimension: int,
    heads: int,
    weights: Tensor,
    biases: Tensor,
    *others: Any,
    **_: Any,
) -> tuple[Tensor, None]:
    """What torch's `multi_head_attention_forward` computes of (L, B, D) without masks: there a trace loses L."""
    out_weight, out_bias = others[4:6]

    def projected(tokens: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        tokens = F.linear(tokens, weight, bias)
        return tokens.reshape(tokens.shape[0], tokens.shape[1], heads, -1).permute(1, 2, 0, 3)  # (B, heads, L, d)

    q, k, v = map(projected, (query, key, value), weights.chunk(3), biases.chunk(3))
    attended = (q * q.shape[-1] ** -0.5 @ k.transpose(-1, -2)).softmax(-1) @ v
    return F.linear(attended.permute(2, 0, 1, 3).flatten(2), out_weight, out_bias), None


@contextmanager
def _exporting() -> Iterator[None]:
    """Without torch's fused Transformer layer, which has no counterpart in ONNX, and without the exporter's chatter."""
    fused, attention = torch.backends.mha.get_fastpath_enabled(), F.multi_head_attention_forward
    torch.backends.mha.set_fastpath_enabled(False)
    F.multi_head_attention_forward = _attention  # type: ignore[assignment] # takes less, and what is given
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(logging.NOTSET)
        F.multi_head_attention_forward = attention
        torch.backends.mha.set_fastpath_enabled(fused)
