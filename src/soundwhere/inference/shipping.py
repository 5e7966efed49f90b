"""The graphs of a built-in model, written without weights: those come from its safetensors file when it is opened."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch
from torch import Tensor, nn

from soundwhere.errors import ConfigError
from soundwhere.files import make_folder, write_bytes, write_json
from soundwhere.inference.export import Exportable, joined_graph, noise
from soundwhere.inference.graphs import ABOUT, FORMAT, FRONT_ENDS, PARTS
from soundwhere.media.image import normalise
from soundwhere.methods.method import Step

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

    from soundwhere.methods.method import Network

_LARGEST: Final = 4096  # values of a constant that is no weight, such as a table of positions
_WEIGHTS: Final = "weights"  # where a graph says that its weights are; nobody ever looks there
_OWNER: Final = re.compile(r"^\d+\.model\.")


class _Does(nn.Module):
    """A function as a module."""

    def __init__(self, work: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.work = work

    def forward(self, *values: Tensor) -> tuple[Tensor, ...]:
        """Do it."""
        return (self.work(*values),)


def write_graphs(model: Network, folder: Path) -> None:
    """Write the graphs of a model, and what is to be known about them before they are opened.

    Args:
        model: In eval mode, on the CPU, with the very weights that ship, which may have been stored in half precision.
        folder: Created if need be.

    Raises:
        ConfigError: No front end without torch makes the spectrograms this model hears.
    """
    if model.front_end not in FRONT_ENDS:
        raise ConfigError(
            f"{model.config.name} hears spectrograms that only torch makes ({model.front_end!r}).",
            f"Graphs ship for models that hear one of: {', '.join(FRONT_ENDS)}.",
        )
    make_folder(folder)
    tensors = {}
    for part, graph in cut_graphs(model).items():
        tensors[part] = without_weights(graph, {name: value.numpy() for name, value in model.state_dict().items()})
        write_bytes(folder / f"{part}.onnx", graph.SerializeToString(deterministic=True))
    about = {"sources": model.sources, "stride_px": model.stride_px, "spectrogram": model.front_end}
    write_json(folder / ABOUT, {"format": FORMAT, **about, "tensors": tensors})


def cut_graphs(model: Network) -> dict[str, Any]:
    """The forward pass from bytes of pictures to heat in [0, 1], cut into `PARTS`, with weights."""
    import onnx

    image, spectrogram = noise(model, batch=2, rows=3, columns=4)
    pictures = torch.randint(256, (2, *image.shape[2:], 3), dtype=torch.uint8)
    last = model.finish[-1].outputs[0] if model.finish else "similarity"
    steps: dict[Step, nn.Module] = {
        Step("normalise", ("pictures",), ("image",)): _Does(normalise),
        **{step: Exportable(model, step) for step in (*model.steps, *model.finish)},
        Step("clamp", (last,), ("maps",)): _Does(lambda maps: maps.clamp(0, 1)),
    }
    inputs = {"pictures": pictures, "spectrogram": spectrogram}
    whole = joined_graph(steps, inputs, PARTS["answer"][1], model.config.name)
    extractor = onnx.utils.Extractor(whole)
    return {part: extractor.extract_model(list(given), list(wanted)) for part, (given, wanted) in PARTS.items()}


def without_weights(graph: Any, weights: dict[str, NDArray[Any]]) -> list[str]:
    """Take the weights out of a graph, in place, and what nobody reads.

    Args:
        graph: An ONNX model.
        weights: What it may refer to, by name.

    Returns:
        The names it refers to.

    Raises:
        ConfigError: The graph holds something large that is not a weight.
    """
    from onnx import TensorProto, numpy_helper

    names: dict[str, str] = {}  # in the graph, and as a weight
    kept: list[Any] = []
    for constant in graph.graph.initializer:
        weight = _OWNER.sub("", constant.name)
        value = numpy_helper.to_array(constant)
        if weight in weights and np.array_equal(weights[weight], value):
            names[constant.name] = weight
        elif value.size > _LARGEST:
            raise ConfigError(f"The graph holds {constant.name}, {value.shape}, which is not a weight.", "Report it.")
        else:
            kept.append(constant)
    for weight in sorted(set(names.values())):
        shape = weights[weight].shape
        outside = TensorProto(name=weight, data_type=TensorProto.FLOAT, dims=shape, data_location=TensorProto.EXTERNAL)
        for key, said in (("location", _WEIGHTS), ("offset", "0"), ("length", str(4 * weights[weight].size))):
            outside.external_data.add(key=key, value=said)
        kept.append(outside)
    del graph.graph.initializer[:]
    graph.graph.initializer.extend(kept)
    for node in graph.graph.node:
        for place, name in enumerate(node.input):
            node.input[place] = names.get(name, name)
        node.ClearField("doc_string")
        del node.metadata_props[:]
    del graph.graph.value_info[:], graph.graph.metadata_props[:], graph.metadata_props[:], graph.functions[:]
    return sorted(set(names.values()))
