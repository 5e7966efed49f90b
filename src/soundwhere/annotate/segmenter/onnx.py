"""SAM 2 as an encoder and a decoder in ONNX, run by onnxruntime."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from PIL import Image as Pillow

from soundwhere.annotate.segmenter.protocol import CANDIDATES, Candidate, Embedding, choose, upscaled
from soundwhere.constants import IMAGENET_MEAN, IMAGENET_STD
from soundwhere.cores import cores
from soundwhere.errors import CheckpointError, needing

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from soundwhere.annotate.segmenter.protocol import Box, Mask, Point
    from soundwhere.types import Image

_SIDE: Final = 1024  # of the encoder's input, whatever the picture's shape
_FEATURES: Final = ("image_embed", "high_res_feats_0", "high_res_feats_1")
_CORNERS: Final = (2.0, 3.0)  # labels of a box's two corners among points
_ENDINGS: Final = (".onnx", ".ort")


class OnnxSegmenter:
    """A SAM 2 encoder and decoder pair.

    The encoder takes `image` (1, 3, 1024, 1024) and gives `image_embed` and two finer maps; the decoder takes these,
    `point_coords`, `point_labels`, `mask_input` and `has_mask_input`, and gives `masks` and `iou_predictions`.

    Args:
        folder: Holds one file with `encoder` and one with `decoder` in its name, ending in `.onnx` or `.ort`.

    Raises:
        CheckpointError: A file is missing, or not such a network.
        MissingExtraError: onnxruntime is not installed.
    """

    def __init__(self, folder: Path) -> None:
        with needing("onnxruntime", "export"):
            import onnxruntime
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = cores()
        options.log_severity_level = 3
        digest = hashlib.sha256()
        sessions = []
        for part in ("encoder", "decoder"):
            path = _find(folder, part)
            digest.update(path.read_bytes())
            try:
                sessions.append(
                    onnxruntime.InferenceSession(str(path), options, providers=onnxruntime.get_available_providers())
                )
            except Exception as error:  # onnxruntime's errors have no common class that is exported
                raise CheckpointError(f"{path} cannot be loaded: {error}.", "Get the pair of files again.") from error
        self._encoder, self._decoder = sessions
        wanted, given = set(_FEATURES), {output.name for output in self._encoder.get_outputs()}
        if wanted != given:
            raise CheckpointError(
                f"The encoder in {folder} gives {', '.join(sorted(given))}.", f"It should give {', '.join(_FEATURES)}."
            )
        self.name = f"onnx-{digest.hexdigest()[:12]}"

    def embed(self, image: Image) -> Embedding:
        """Run the encoder on the picture squashed to 1024 x 1024; about 12 MB, kept at half precision."""
        squashed = Pillow.fromarray(image).resize((_SIDE, _SIDE), Pillow.Resampling.BILINEAR)
        pixels = np.asarray(squashed, np.float32) / 255
        pixels = (pixels - np.array(IMAGENET_MEAN, np.float32)) / np.array(IMAGENET_STD, np.float32)
        outputs = self._encoder.run(list(_FEATURES), {"image": pixels.transpose(2, 0, 1)[None]})
        arrays = {name: output.astype(np.float16) for name, output in zip(_FEATURES, outputs, strict=True)}
        return Embedding((image.shape[0], image.shape[1]), arrays)

    def propose(self, embedding: Embedding, box: Box) -> list[Candidate]:
        """The decoder's three masks for a box."""
        masks, scores = self._decode(embedding, box, ())
        return [Candidate(upscaled(mask, embedding.size) > 0, score) for mask, score in zip(masks, scores, strict=True)]

    def refine(
        self, embedding: Embedding, box: Box | None, points: Sequence[Point], previous: Mask | None = None
    ) -> Mask:
        """The decoder's best mask for points, or the one most like `previous`."""
        masks, scores = self._decode(embedding, box, points)
        return choose([upscaled(mask, embedding.size) > 0 for mask in masks], scores, previous)

    def _decode(
        self, embedding: Embedding, box: Box | None, points: Sequence[Point]
    ) -> tuple[NDArray[np.float32], list[float]]:
        """Masks as logits, shape (3, 256, 256), and their scores."""
        height, width = embedding.size
        corners = [] if box is None else [(box[0], box[1], _CORNERS[0]), (box[2], box[3], _CORNERS[1])]
        prompts = np.array([*corners, *points], np.float32).reshape(-1, 3)
        inputs: dict[str, Any] = {name: array.astype(np.float32) for name, array in embedding.arrays.items()}
        inputs["point_coords"] = prompts[None, :, :2] * np.array([_SIDE / width, _SIDE / height], np.float32)
        inputs["point_labels"] = prompts[None, :, 2]
        inputs["mask_input"] = np.zeros((1, 1, _SIDE // 4, _SIDE // 4), np.float32)
        inputs["has_mask_input"] = np.zeros(1, np.float32)
        masks, scores = self._decoder.run(["masks", "iou_predictions"], inputs)
        return masks[0, -CANDIDATES:], [float(min(max(score, 0.0), 1.0)) for score in scores[0, -CANDIDATES:]]


def _find(folder: Path, part: str) -> Path:
    names = sorted(folder.iterdir()) if folder.is_dir() else []
    found = [path for path in names if part in path.name and path.suffix in _ENDINGS]
    if len(found) != 1:
        raise CheckpointError(
            f"{folder} has {len(found)} files that end in .onnx or .ort with {part!r} in their name.",
            "Give a folder with one SAM 2 encoder and one decoder; docs/annotate.md says where to get them.",
        )
    return found[0]
