"""Who computes: torch, or an ONNX file in onnxruntime or OpenVINO behind the methods of `SCAV`."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from soundwhere.config import ModelConfig, from_dict
from soundwhere.errors import CheckpointError, ConfigError, MissingExtraError
from soundwhere.files import parse_json
from soundwhere.inference.export import ANSWERS, FORMAT
from soundwhere.models.registry import load_model
from soundwhere.models.scav import SCAV, Branches
from soundwhere.types import Localisation

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Part = Callable[[list[NDArray[Any]]], list[NDArray[Any]]]  # inputs to outputs, in the order of `PARTS`

Runtime = Literal["torch", "onnx", "openvino"]

PARTS: Final = {
    "embed": (["spectrogram"], ["heard"]),
    "see": (["image"], ["features"]),
    "answer": (["features", "heard"], list(ANSWERS)),
    "strength": (["features"], ["strength"]),
    "decouple": (["features", "heard", "prior"], ["refined", "embeddings"]),
}
"""What is cut out of a file: inputs and outputs. The last two are steps of an answer, for other numbers of sources."""


def load(model: str | Path | SCAV, runtime: str | None, device: torch.device, workers: int = 1) -> SCAV:
    """A model in eval mode, ready to localise.

    Args:
        model: A model, its name, or its file: safetensors, or ONNX as `export_onnx` writes it.
        runtime: `torch`, `onnx` or `openvino`; by default onnx for ONNX files and torch for everything else.
        device: Where torch computes. The other two use the processor.
        workers: Threads that will compute at the same time and share the processor.

    Raises:
        ConfigError: The runtime does not exist or does not go with the model.
        MissingExtraError: The runtime is not installed.
        CheckpointError: The file is no model.
    """
    if runtime is not None and runtime not in get_args(Runtime):
        raise ConfigError(f"There is no runtime {runtime!r}.", f"Choose one of: {', '.join(get_args(Runtime))}.")
    exported = not isinstance(model, SCAV) and Path(model).suffix == ".onnx"
    runtime = runtime or ("onnx" if exported else "torch")
    if exported != (runtime != "torch"):
        name = model.config.name if isinstance(model, SCAV) else model
        remedy = (
            "Give --runtime onnx or openvino, or the safetensors file."
            if exported
            else f"Write a file it can run with `soundwhere export --onnx --model {name}` and give that as the model."
        )
        raise ConfigError(f"The runtime {runtime} cannot run {name}.", remedy)
    if exported:
        return Compiled(Path(str(model)), runtime, workers)
    if isinstance(model, SCAV):
        return model.to(device).eval()
    return fold_norms(load_model(model)).to(device)


def fold_norms(model: SCAV) -> SCAV:
    """Let every convolution do the batch normalisation that follows it, too; for a model in eval mode, in place.

    The encoders register a convolution and its normalisation one after the other.
    """
    for parent in list(model.modules()):
        for (first, layer), (second, norm) in pairwise(parent.named_children()):
            if isinstance(layer, nn.Conv2d) and isinstance(norm, nn.BatchNorm2d):
                setattr(parent, first, fuse_conv_bn_eval(layer, norm))
                setattr(parent, second, nn.Identity())
    return model


class Compiled(SCAV):
    """An ONNX file with the methods of `SCAV`; what has weights is computed by another runtime, the rest by torch.

    Args:
        path: A file that `export_onnx` wrote.
        runtime: `onnx` or `openvino`.
        workers: Threads that will compute at the same time and share the processor.
    """

    def __init__(self, path: Path, runtime: str, workers: int = 1) -> None:
        config, parts = read_parts(path)
        with torch.device("meta"):  # no weights: those are in the file
            super().__init__(config)
        self._contents = parts
        self._parts: dict[str, Part] = {}
        self._compile = partial({"onnx": _onnxruntime, "openvino": _openvino}[runtime], workers=workers)
        for name in ("embed", "see", "answer"):
            self._part(name)
        self.eval()

    def embed(self, spectrogram: Tensor) -> Tensor:
        """As `SCAV.embed`."""
        return self._run("embed", spectrogram)[0]

    def see(self, image: Tensor) -> Tensor:
        """As `SCAV.see`, one picture after the other: what is computed for one fits a processor's caches."""
        return torch.cat([self._run("see", one[None])[0] for one in image.unbind()])

    def localise_heard(self, features: Tensor, heard: Tensor) -> Localisation:
        """As `SCAV.localise_heard`."""
        return Localisation(*self._run("answer", features, heard))

    def see_strength(self, features: Tensor) -> Tensor:
        """As `SCAV.see_strength`."""
        return self._run("strength", features)[0]

    def decouple(self, features: Tensor, embedding: Tensor, prior: Tensor) -> Branches:
        """As `SCAV.decouple`."""
        heard = embedding[:, None].expand(-1, 2, -1)  # of the two stages' embeddings, the second is used here
        return Branches(*self._run("decouple", features, heard, prior))

    def _run(self, part: str, *tensors: Tensor) -> list[Tensor]:
        arrays = self._part(part)([tensor.contiguous().numpy() for tensor in tensors])
        return [torch.from_numpy(array) for array in arrays]

    def _part(self, name: str) -> Part:
        """A part, compiled when it is first needed."""
        if name not in self._parts:
            self._parts[name] = self._compile(self._contents[name], *PARTS[name])
        return self._parts[name]


def read_parts(path: Path) -> tuple[ModelConfig, dict[str, bytes]]:
    """The configuration in an ONNX file, and the file cut into the parts that this model has."""
    if not path.is_file():
        raise CheckpointError(f"{path} does not exist.", "Write it with `soundwhere export --onnx`.")
    try:
        import onnx
        from google.protobuf.message import DecodeError
    except ImportError as error:
        raise MissingExtraError("onnx", "export") from error
    try:
        model = onnx.load(path)
    except (DecodeError, OSError) as error:
        raise CheckpointError(f"{path} is not a readable ONNX file ({error}).", "Export the model again.") from error
    about = {entry.key: entry.value for entry in model.metadata_props}
    if about.get("format") != FORMAT:
        found = about.get("format", "no format in its metadata")
        raise CheckpointError(f"{path} is not a model of soundwhere ({found}).", "Export the model again.")
    try:
        config = from_dict(ModelConfig, parse_json(about["model"]), str(path))
    except (KeyError, ValueError) as error:
        raise CheckpointError(f"{path} does not say what its model is ({error}).", "Export the model again.") from error
    extractor = onnx.utils.Extractor(model)
    own = {"decouple": config.decouple, "strength": config.decouple and config.maps == "shaped"}
    names = [name for name in PARTS if own.get(name, True)]
    return config, {name: extractor.extract_model(*PARTS[name]).SerializeToString() for name in names}


def _onnxruntime(content: bytes, inputs: list[str], outputs: list[str], workers: int) -> Part:
    try:
        import onnxruntime
    except ImportError as error:
        raise MissingExtraError("onnxruntime", "export") from error
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = max(1, torch.get_num_threads() // workers)
    options.log_severity_level = 3
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # or idle threads keep torch's waiting
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])

    def run(arrays: list[NDArray[Any]]) -> list[NDArray[Any]]:
        found: list[NDArray[Any]] = session.run(outputs, dict(zip(inputs, arrays, strict=True)))
        return found

    return run


def _openvino(content: bytes, inputs: list[str], outputs: list[str], workers: int) -> Part:
    try:
        import openvino
    except ImportError as error:
        raise MissingExtraError("openvino", "openvino") from error
    settings = {
        "INFERENCE_NUM_THREADS": torch.get_num_threads(),
        "NUM_STREAMS": workers,
        "INFERENCE_PRECISION_HINT": "f32",
    }
    compiled = openvino.Core().compile_model(openvino.Core().read_model(content), "CPU", settings)

    def run(arrays: list[NDArray[Any]]) -> list[NDArray[Any]]:
        found = compiled.infer_new_request(dict(zip(inputs, arrays, strict=True)))  # one that no other thread uses
        return [found[name] for name in outputs]

    return run
