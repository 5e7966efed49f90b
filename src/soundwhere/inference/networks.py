"""Networks in torch, and ONNX files that stand in for them, in onnxruntime or OpenVINO."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from soundwhere import cores
from soundwhere.errors import CheckpointError, ConfigError, needing
from soundwhere.files import parse_json
from soundwhere.inference.export import FORMAT
from soundwhere.inference.runtimes import Found, session_options
from soundwhere.media.image import normalise
from soundwhere.methods.files import build, load_model, stored_config
from soundwhere.methods.method import SEE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from soundwhere.config import MethodConfig
    from soundwhere.methods.method import Localises, Network, Step

    Part = Callable[[list[NDArray[Any]]], list[NDArray[Any]]]  # inputs to outputs of a step, in its order

M = TypeVar("M", bound=nn.Module)


def load_network(model: str | Path | Network, runtime: str | None, device: torch.device, workers: int = 1) -> Localises:
    """A model in eval mode, on its device.

    Args:
        model: A model, its name, or its file: safetensors, or ONNX as `export_onnx` writes it.
        runtime: `torch`, `onnx` or `openvino`; by default onnx for ONNX files and torch for everything else.
        device: Where torch computes. The other two use the processor.
        workers: Threads that will compute at the same time and share the processor.

    Raises:
        ConfigError: The runtime does not exist or does not go with the model.
        MissingExtraError: The runtime is not installed.
        CheckpointError: The file is not a model.
    """
    exported = not isinstance(model, nn.Module) and Path(model).suffix == ".onnx"
    runtime = runtime or ("onnx" if exported else "torch")
    if exported != (runtime != "torch"):
        name = model.config.name if isinstance(model, nn.Module) else model
        remedy = (
            "Give --runtime onnx or openvino, or the safetensors file."
            if exported
            else f"Write a file it can run with `soundwhere export --onnx --model {name}` and give that as the model."
        )
        raise ConfigError(f"The runtime {runtime} cannot run {name}.", remedy)
    if isinstance(model, nn.Module):
        return model.to(device).eval()
    return Compiled(Path(model), runtime, workers) if exported else fold_norms(load_model(model)).to(device)


def fold_norms(model: M) -> M:
    """Let every convolution do the batch normalisation that follows it, too; for a model in eval mode, in place.

    The encoders register a convolution and its normalisation one after the other.
    """
    for parent in list(model.modules()):
        for (first, layer), (second, norm) in pairwise(parent.named_children()):
            if isinstance(layer, nn.Conv2d) and isinstance(norm, nn.BatchNorm2d):
                setattr(parent, first, fuse_conv_bn_eval(layer, norm))
                setattr(parent, second, nn.Identity())
    return model


class InTorch:
    """A network that `Runs`: arrays outside, tensors on the network's device inside."""

    def __init__(self, network: Localises) -> None:
        self._network = network
        self.config, self.sources, self.stride_px = network.config, network.sources, network.stride_px
        self.device = str(network.device)
        cores.settle()

    @torch.inference_mode()
    def hear(self, sounds: NDArray[np.float32]) -> Sequence[Any]:
        """See `Runs`."""
        return self._network.hear(torch.from_numpy(sounds).to(self._network.device)).unbind()

    @torch.inference_mode()
    def localise(
        self, pictures: NDArray[np.uint8], shown: Sequence[int], heard: Sequence[Any], sources: int | None = None
    ) -> Found:
        """See `Runs`."""
        images = normalise(torch.from_numpy(pictures).to(self._network.device))
        features = self._network.see(images)
        if len(features) < len(shown):
            images, features = images[list(shown)], features[list(shown)]
        # always a number: asked for none, a method may leave a picture dark; what counts as sounding is decided later
        found = self._network.localise(features, torch.stack(list(heard)), sources or self.sources)
        maps = self._network.sharpen(found.similarity, images).clamp(0, 1)
        answers = (maps, found.confidence, found.embeddings)
        return Found(*(tensor.float().cpu().numpy() for tensor in answers))


class Compiled:
    """An ONNX file that `Localises`: what has weights is computed by another runtime, the rest by torch.

    Args:
        path: A file that `export_onnx` wrote.
        runtime: `onnx` or `openvino`.
        workers: Threads that will compute at the same time and share the processor.
    """

    device = torch.device("cpu")

    def __init__(self, path: Path, runtime: str, workers: int = 1) -> None:
        config, extract = read_onnx(path)
        with torch.device("meta"):  # no weights: those are in the file
            network = build(config).eval()
        compile_part = partial({"onnx": _onnxruntime, "openvino": _openvino}[runtime], workers=workers)
        for number, step in enumerate(network.parts):
            part = _Part(step, extract, compile_part)
            vars(network)[step.method] = part  # in place of the method, whose weights are not there
            if number < len(network.steps[:3]):
                part.open()  # every answer needs the first ones, and what is wrong with a file is said at once
        self.config, self.needs = config, network.needs
        self.sources, self.stride_px = network.sources, network.stride_px
        self.see, self.hear, self.sharpen, self.localise = network.see, network.hear, network.sharpen, network.localise


class _Part:
    """A step of the forward pass in another runtime, compiled when it is first needed."""

    def __init__(self, step: Step, extract: Callable[[Step], bytes], compile_part: Callable[..., Part]) -> None:
        self._step, self._extract, self._compile = step, extract, compile_part
        self._run: Part | None = None

    def open(self) -> Part:
        if self._run is None:
            self._run = self._compile(self._extract(self._step), list(self._step.inputs), list(self._step.outputs))
        return self._run

    def __call__(self, *tensors: Tensor) -> Any:
        if self._step == SEE:  # picture by picture: what is computed for one fits a processor's caches
            return torch.cat([self._one(image[None]) for image in tensors[0].unbind()])
        return self._one(*tensors)

    def _one(self, *tensors: Tensor) -> Any:
        arrays = self.open()([tensor.contiguous().numpy() for tensor in tensors])
        return self._step.gives(*map(torch.from_numpy, arrays))


def read_onnx(path: Path) -> tuple[MethodConfig, Callable[[Step], bytes]]:
    """The configuration in an ONNX file, and what cuts a step out of it as a file of its own."""
    if not path.is_file():
        raise CheckpointError(f"{path} does not exist.", "Write it with `soundwhere export --onnx`.")
    with needing("onnx", "export"):
        import onnx
        from google.protobuf.message import DecodeError
    try:
        model = onnx.load(path)
    except (DecodeError, OSError) as error:
        raise CheckpointError(f"{path} is not a readable ONNX file ({error}).", "Export the model again.") from error
    about = {entry.key: entry.value for entry in model.metadata_props}
    if about.get("format") != FORMAT:
        found = about.get("format", "no format in its metadata")
        raise CheckpointError(f"{path} is not a model of soundwhere ({found}).", "Export the model again.")
    try:
        config = stored_config(parse_json(about["model"]), str(path))
    except (KeyError, ValueError) as error:
        raise CheckpointError(f"{path} does not say what its model is ({error}).", "Export the model again.") from error
    extractor = onnx.utils.Extractor(model)

    def extract(step: Step) -> bytes:
        content: bytes = extractor.extract_model(list(step.inputs), list(step.outputs)).SerializeToString()
        return content

    return config, extract


def _onnxruntime(content: bytes, inputs: list[str], outputs: list[str], workers: int) -> Part:
    with needing("onnxruntime", "export"):
        import onnxruntime
    options = session_options(max(1, cores.cores() // workers))
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])

    def run(arrays: list[NDArray[Any]]) -> list[NDArray[Any]]:
        found: list[NDArray[Any]] = session.run(outputs, dict(zip(inputs, arrays, strict=True)))
        return found

    return run


def _openvino(content: bytes, inputs: list[str], outputs: list[str], workers: int) -> Part:
    with needing("openvino", "openvino"):
        import openvino
    settings = {
        "INFERENCE_NUM_THREADS": cores.cores(),
        "NUM_STREAMS": workers,
        "INFERENCE_PRECISION_HINT": "f32",
    }
    compiled = openvino.Core().compile_model(openvino.Core().read_model(content), "CPU", settings)

    def run(arrays: list[NDArray[Any]]) -> list[NDArray[Any]]:
        found = compiled.infer_new_request(dict(zip(inputs, arrays, strict=True)))  # one that no other thread uses
        return [found[name] for name in outputs]

    return run
