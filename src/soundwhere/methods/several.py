"""Networks of two encoders that give a map for each of several sources by themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

import torch

from soundwhere.errors import ConfigError
from soundwhere.methods.method import Control
from soundwhere.methods.two_encoders import TwoEncoders

if TYPE_CHECKING:
    from torch import Tensor

    from soundwhere.methods.two_encoders import TwoEncodersConfig


def _surest(network: TwoEncoders, seen: Tensor, heard: Tensor, _: tuple[int, int]) -> Tensor:
    found = network.answer(seen, heard)
    rows = torch.arange(len(seen), device=seen.device)
    return found.similarity[rows, found.confidence.argmax(1)][:, None]


SUREST: Final = Control("solo sounds", "solo", _surest)
"""Where the surest of a network's maps points when it hears one sound alone, shape (B, 1, h, w)."""


class SeveralMaps(TwoEncoders):
    """A network that answers for several sounds at once; it is never asked with each of them alone."""

    controls: ClassVar[tuple[Control, ...]] = (SUREST,)

    def __init__(self, config: TwoEncodersConfig) -> None:
        super().__init__(config)
        if config.queries != "mixture":
            raise ConfigError(
                f"The method {config.family!r} gives a map for each source of a mixture.",
                "Leave out --queries: solo sounds are for methods with one map.",
            )
