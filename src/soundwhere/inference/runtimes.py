"""Who computes: onnxruntime, for built-in models without torch; torch; or an ONNX file in onnxruntime or OpenVINO."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, get_args

from soundwhere.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from soundwhere.config import MethodConfig
    from soundwhere.methods.method import Network

    Floats = NDArray[np.float32]

Runtime = Literal["torch", "onnx", "openvino"]

# Where drivers of graphics cards show themselves: NVIDIA's, in Windows' Linux too, and AMD's
_SIGNS = ("/dev/nvidiactl", "/dev/nvhost-ctrl-gpu", "/dev/dxg", "/dev/kfd")


class Found(NamedTuple):
    """What a model answers about B frames.

    Attributes:
        maps: Heat of each source, with the edges of the picture if the model can, shape (B, K, h, w), in [0, 1].
        confidence: How surely each map shows a sounding source, shape (B, K), in [0, 1].
        embeddings: Each source's audio embedding, by which sources are followed over time, shape (B, K, D).
    """

    maps: Floats
    confidence: Floats
    embeddings: Floats


class Runs(Protocol):
    """A model that is ready to localise, with arrays on both sides. Threads may share it."""

    @property
    def config(self) -> MethodConfig:
        """Its configuration."""

    @property
    def sources(self) -> int:
        """K, how many maps it gives by itself."""

    @property
    def stride_px(self) -> int:
        """Pixels of a picture per cell; sides of pictures are multiples of it."""

    @property
    def device(self) -> str:
        """Where it computes, such as `cpu` or `cuda:0`."""

    def hear(self, sounds: Floats) -> Sequence[Any]:
        """What it makes of each of B waveforms of 3 s, shape (B, 66150), its own business."""

    def localise(
        self, pictures: NDArray[np.uint8], shown: Sequence[int], heard: Sequence[Any], sources: int | None = None
    ) -> Found:
        """Where the sounds of B frames come from.

        Args:
            pictures: The P different pictures that frames show, RGB, shape (P, H, W, 3).
            shown: Which of them each frame shows, B numbers.
            heard: What was heard around each frame, B values from `hear`.
            sources: K, if not the model's own number.
        """


def load(
    model: str | Path | Network, runtime: str | None, device: str, workers: int = 1, sources: int | None = None
) -> Runs:
    """A model, ready to localise.

    Args:
        model: A model, its name, or its file: safetensors, or ONNX as `export_onnx` writes it.
        runtime: `torch`, `onnx` or `openvino`. By default onnx for ONNX files and for built-in models on a processor,
            torch for everything else.
        device: `auto`, `cpu`, `cuda` or `cuda:N`, where torch computes. The other two use the processor.
        workers: Threads that will compute at the same time and share the processor.
        sources: How many maps will be asked for, if not the model's own number.

    Raises:
        ConfigError: The runtime does not exist or does not go with the model.
        MissingExtraError: The runtime is not installed.
        CheckpointError: The file is not a model.
    """
    if runtime is not None and runtime not in get_args(Runtime):
        raise ConfigError(f"There is no runtime {runtime!r}.", f"Choose one of: {', '.join(get_args(Runtime))}.")
    if isinstance(model, str) and opens_aside(model, runtime, device):
        from soundwhere.inference.graphs import Graphs

        if device not in ("auto", "cpu"):  # one that is not there is refused even if nothing will be computed on it
            from soundwhere.distributed import initialise

            initialise(device)
        graphs = Graphs(model, workers)
        if sources is None or sources <= graphs.sources:
            return graphs
        if runtime is not None:
            raise ConfigError(
                f"{model} gives at most {graphs.sources} sources in onnxruntime.", "Use --runtime torch for more."
            )
    from soundwhere.distributed import initialise
    from soundwhere.inference.networks import InTorch, load_network

    return InTorch(load_network(model, runtime, initialise(device), workers))


def opens_aside(model: str | Path, runtime: str | None, device: str) -> bool:
    """Whether `load` returns at once, because the model is opened in threads of its own: see `Graphs`."""
    if runtime is None and (device == "cpu" or (device == "auto" and not _maybe_gpu())):
        runtime = "onnx"
    if runtime != "onnx":
        return False
    from soundwhere.inference.graphs import has_graphs

    return has_graphs(str(model))


def session_options(threads: int) -> Any:
    """How onnxruntime runs a graph: on so many threads, which leave others the processor while they are idle."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return options


def _maybe_gpu() -> bool:
    """Whether torch, which takes seconds to import, should be asked if there is a graphics card to compute on."""
    if os.environ.get("CUDA_VISIBLE_DEVICES") == "":
        return False
    if sys.platform == "win32":
        return Path(os.environ.get("SYSTEMROOT", r"C:\Windows"), "System32", "nvcuda.dll").exists()
    return any(Path(sign).exists() for sign in _SIGNS)
