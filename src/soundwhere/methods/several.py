"""Networks of two encoders that give a map for each of several sources by themselves, some of them by classes."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar, Final

import torch

from soundwhere.constants import SOURCES
from soundwhere.errors import ConfigError
from soundwhere.methods.method import Control
from soundwhere.methods.two_encoders import TwoEncoders

if TYPE_CHECKING:
    from torch import Tensor

    from soundwhere.methods.method import Given
    from soundwhere.methods.two_encoders import TwoEncodersConfig
    from soundwhere.types import Localisation


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


class ClassMaps(SeveralMaps):
    """A network with a map for every class, which knows the classes that sound or finds those it hears most surely."""

    @property
    def sources(self) -> int:
        """Two, as in the mixtures it is trained on."""
        return SOURCES

    @property
    def note(self) -> str:
        """What a row has to say."""
        return "labels given, in training and at test"

    @abstractmethod
    def localise(
        self, seen: Tensor, heard: Tensor, sources: int | None = None, given: Given | None = None
    ) -> Localisation:
        """The maps of the labelled classes, or without labels of those that are heard most surely."""

    def answer(self, seen: Tensor, heard: Tensor) -> Localisation:
        """The maps of the two classes that are heard most surely."""
        return self.localise(seen, heard)
