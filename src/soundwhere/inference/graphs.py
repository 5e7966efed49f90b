"""Built-in models in onnxruntime, without torch: their graphs ship without weights, which the safetensors file has.

`scripts/ship_weights.py` writes the graphs (`soundwhere.inference.shipping`). A model has three: what is heard, what is
seen, and the answer to both, so that a window of sound is encoded once for all of its frames.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from soundwhere import cores
from soundwhere.errors import CheckpointError
from soundwhere.files import parse_json
from soundwhere.inference.runtimes import Found, session_options
from soundwhere.media.log_mel import log_mel
from soundwhere.media.spectrogram import PRESETS, log_spectrogram
from soundwhere.methods.files import MODEL_PREFIX, SHIPPED, WEIGHTS, model_file, read_arrays, read_facts

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Future
    from pathlib import Path

    from numpy.typing import NDArray

    from soundwhere.config import MethodConfig
    from soundwhere.inference.runtimes import Floats

FORMAT: Final = "soundwhere-graphs-1"
ABOUT: Final = "about.json"
PARTS: Final = {
    "hear": (("spectrogram",), ("heard",)),
    "see": (("pictures",), ("features",)),
    "answer": (("features", "heard", "pictures"), ("maps", "confidence", "embeddings")),
}
"""The graphs of a model, each with the values that go in and come out."""
FRONT_ENDS: Final[dict[str, Callable[[Any], Any]]] = {
    **{name: partial(log_spectrogram, preset=name) for name in PRESETS},
    "yamnet": log_mel,
}
"""How a waveform becomes what the first graph hears."""


def graph_folder(name: str) -> Path:
    """Where the graphs of a built-in model are."""
    return WEIGHTS / "graphs" / name


def has_graphs(name: str) -> bool:
    """Whether a model ships with weights and graphs."""
    return name in SHIPPED and (graph_folder(name) / ABOUT).is_file()


class Graphs:
    """A built-in model that `Runs`. It is opened in threads of its own, while its user reads on; who asks first waits.

    Args:
        name: Of the model.
        workers: Threads that will compute at the same time and share the processor.
    """

    device = "cpu"

    def __init__(self, name: str, workers: int = 1) -> None:
        folder = graph_folder(name)
        about = parse_json((folder / ABOUT).read_bytes())
        if about.get("format") != FORMAT or about.get("spectrogram") not in FRONT_ENDS:
            raise CheckpointError(f"The built-in graphs of {name} are damaged.", "Install the package again.")
        self.config: MethodConfig = read_facts(WEIGHTS / f"{name}.safetensors")[0]
        self.sources, self.stride_px = int(about["sources"]), int(about["stride_px"])
        self._spectrogram = FRONT_ENDS[about["spectrogram"]]
        opening = ThreadPoolExecutor(1 + min(len(PARTS), cores.cores()))
        weights = opening.submit(_weights, name)
        threads = max(1, cores.cores() // workers)
        self._parts = {
            part: opening.submit(_opened, folder / f"{part}.onnx", weights, about["tensors"][part], threads)
            for part in PARTS
        }
        opening.shutdown(wait=False)

    def hear(self, sounds: Floats) -> Sequence[Any]:
        """See `Runs`."""
        [heard] = self._run("hear", self._spectrogram(sounds))
        return list(heard)

    def localise(
        self, pictures: NDArray[np.uint8], shown: Sequence[int], heard: Sequence[Any], sources: int | None = None
    ) -> Found:
        """See `Runs`."""
        # picture by picture: what is computed for one fits a processor's caches
        features = [self._run("see", picture[None])[0] for picture in pictures]
        shown_features = np.concatenate([features[number] for number in shown])
        found = Found(*self._run("answer", shown_features, np.stack(heard), pictures[list(shown)]))
        return found if sources is None else Found(*(values[:, :sources] for values in found))

    def _run(self, part: str, *values: NDArray[Any]) -> list[Floats]:
        inputs, outputs = PARTS[part]
        session, taken = self._parts[part].result()
        given = {name: value for name, value in zip(inputs, values, strict=True) if name in taken}
        found: list[Floats] = session.run(outputs, given)
        return found


def _weights(name: str) -> dict[str, Any]:
    """The tensors of a built-in model for onnxruntime, in single precision."""
    from onnxruntime import OrtValue

    arrays = read_arrays(model_file(name), MODEL_PREFIX)
    return {key: OrtValue.ortvalue_from_numpy(array) for key, array in arrays.items()}


def _opened(path: Path, weights: Future[dict[str, Any]], names: list[str], threads: int) -> tuple[Any, frozenset[str]]:
    """A graph with its weights, ready to run, and the names of the values it takes."""
    import onnxruntime

    options = session_options(threads)
    tensors = weights.result()
    options.add_external_initializers(names, [tensors[name] for name in names])
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return session, frozenset(value.name for value in session.get_inputs())
