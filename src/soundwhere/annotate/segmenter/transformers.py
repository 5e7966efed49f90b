"""SAM and SAM 2 through Hugging Face's transformers, by model id or local folder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch
from PIL import Image as Pillow

from soundwhere.annotate.segmenter.protocol import Candidate, Embedding, choose, upscaled
from soundwhere.constants import IMAGENET_MEAN, IMAGENET_STD
from soundwhere.errors import CheckpointError, needing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from soundwhere.annotate.segmenter.protocol import Box, Mask, Point
    from soundwhere.types import Image

_SHAPES: Final = {"sam": "SamModel", "sam2": "Sam2Model", "sam2_video": "Sam2Model"}


class TransformersSegmenter:
    """Any `SamModel` or `Sam2Model`.

    Preparation is done here rather than by transformers' own processors, which need torchvision: SAM's pictures keep
    their shape and are padded at the right and below, SAM 2's are squashed.

    Args:
        model: Model id on the Hugging Face hub, or a local folder.

    Raises:
        CheckpointError: There is no such model.
        MissingExtraError: transformers is not installed.
    """

    def __init__(self, model: str) -> None:
        with needing("transformers", "segment"):
            import transformers
        try:
            config = transformers.AutoConfig.from_pretrained(model)
            shape = _SHAPES.get(config.model_type)
            if shape is None:
                raise CheckpointError(
                    f"{model} is a {config.model_type}, not a SAM or SAM 2.", "For example facebook/sam2-hiera-tiny."
                )
            self._model: Any = getattr(transformers, shape).from_pretrained(model).eval()
        except (OSError, ValueError) as error:
            raise CheckpointError(
                f"{model} cannot be loaded: {error}.", "Give a model id or folder of SAM or SAM 2."
            ) from error
        self._pads = config.model_type == "sam"
        self._side = int(self._model.config.vision_config.image_size if self._pads else _side(self._model.config))
        self.name = f"transformers-{model.rstrip('/').rsplit('/', 1)[-1]}"

    def _scale(self, size: tuple[int, int]) -> tuple[float, float]:
        """By how much x and y are multiplied on their way into the network."""
        height, width = size
        if self._pads:
            return (self._side / max(height, width),) * 2
        return self._side / width, self._side / height

    @torch.no_grad()
    def embed(self, image: Image) -> Embedding:
        """Run the image encoder."""
        size = (image.shape[0], image.shape[1])
        across, down = self._scale(size)
        columns, rows = max(1, round(size[1] * across)), max(1, round(size[0] * down))
        scaled = Pillow.fromarray(image).resize((columns, rows), Pillow.Resampling.BILINEAR)
        pixels = np.zeros((self._side, self._side, 3), np.float32)
        values = np.asarray(scaled, np.float32) / 255
        pixels[:rows, :columns] = (values - np.array(IMAGENET_MEAN)) / np.array(IMAGENET_STD)
        found = self._model.get_image_embeddings(torch.from_numpy(pixels.transpose(2, 0, 1)[None]))
        levels = list(found) if isinstance(found, list | tuple) else [found]
        return Embedding(size, {f"level{n}": level.numpy().astype(np.float16) for n, level in enumerate(levels)})

    def propose(self, embedding: Embedding, box: Box) -> list[Candidate]:
        """The decoder's three masks for a box."""
        masks, scores = self._decode(embedding, box, ())
        return [Candidate(mask, score) for mask, score in zip(masks, scores, strict=True)]

    def refine(
        self, embedding: Embedding, box: Box | None, points: Sequence[Point], previous: Mask | None = None
    ) -> Mask:
        """The decoder's best mask for points, or the one most like `previous`."""
        return choose(*self._decode(embedding, box, points), previous)

    @torch.no_grad()
    def _decode(self, embedding: Embedding, box: Box | None, points: Sequence[Point]) -> tuple[list[Mask], list[float]]:
        levels = [
            torch.from_numpy(embedding.arrays[f"level{n}"].astype(np.float32)) for n in range(len(embedding.arrays))
        ]
        across, down = self._scale(embedding.size)
        prompts: dict[str, Any] = {}
        if points:
            prompts["input_points"] = torch.tensor([[[[x * across, y * down] for x, y, _ in points]]])
            prompts["input_labels"] = torch.tensor([[[label for _, _, label in points]]])
        if box is not None:
            left, top, right, bottom = box
            prompts["input_boxes"] = torch.tensor([[[left * across, top * down, right * across, bottom * down]]])
        answer = self._model(image_embeddings=levels[0] if self._pads else levels, multimask_output=True, **prompts)
        masks = answer.pred_masks[0, 0].numpy()
        scores = [float(min(max(score, 0.0), 1.0)) for score in answer.iou_scores[0, 0].tolist()]
        return [self._full(mask, embedding.size) for mask in masks], scores

    def _full(self, logits: NDArray[np.float32], size: tuple[int, int]) -> Mask:
        if self._pads:  # the padding is cut away before the answer is enlarged
            across, down = self._scale(size)
            share = logits.shape[0] / self._side
            rows, columns = round(size[0] * down * share), round(size[1] * across * share)
            logits = logits[: max(1, rows), : max(1, columns)]
        return upscaled(logits, size) > 0


def _side(config: Any) -> int:
    """The side of SAM 2's input."""
    return int(config.prompt_encoder_config.image_size)
