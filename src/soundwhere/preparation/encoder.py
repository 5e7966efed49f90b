"""The frozen visual encoder whose features are stored beside the frames."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from soundwhere.media.image import normalise, resize

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from soundwhere.types import Image


class FrameEncoder:
    """Features of a clip's frames; on one thread and a clip at a time, so that they never depend on who computes them.

    Args:
        model: A model with a frozen visual encoder: its name, its file or the folder of its run.

    Raises:
        ConfigError: Its visual encoder is not frozen.
    """

    def __init__(self, model: str) -> None:
        import torch

        from soundwhere.methods.files import load_model
        from soundwhere.methods.method import require_eye

        torch.set_num_threads(1)
        network = load_model(model)
        eye = require_eye(network, model)
        eye.encoder.eval()
        self._eye, self._frame_px = eye, network.config.frame_px

    def facts(self) -> dict[str, Any]:
        """What tells these features from others."""
        return {"encoder": self._eye.name, "frame_px": self._frame_px}

    def encode(self, frames: list[Image]) -> NDArray[np.float16]:
        """Features (F, C, h, w) of frames, squashed as training squashes them."""
        import torch

        side = (self._frame_px, self._frame_px)
        with torch.no_grad():
            features = self._eye.encode(normalise(np.stack([resize(frame, side) for frame in frames])))
        return features.cpu().to(torch.float16).numpy()
