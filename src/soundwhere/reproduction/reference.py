"""SCAV, which every part asks about: trained here once, gone on with, or taken from an earlier run."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from soundwhere.analysis.contenders import data_digest
from soundwhere.analysis.trained_rows import train_row
from soundwhere.training.run import stage_file

if TYPE_CHECKING:
    from soundwhere.analysis.contenders import Contender


@dataclass(frozen=True)
class Reference:
    """Where it is, and how to get there.

    Attributes:
        contender: Its row of the comparison.
        rows: Folder of the rows that are trained.
        minutes: How long its steps may take.
        download: As in `train`.
    """

    contender: Contender
    rows: Path
    minutes: float | None = None
    download: bool = False

    @property
    def taken(self) -> bool:
        """Whether it is not trained here."""
        return isinstance(self.contender.source, str)

    @property
    def folder(self) -> Path:
        """The folder of its training, or the model that is taken."""
        source = self.contender.source
        return Path(source) if isinstance(source, str) else self.rows / self.contender.folder

    @property
    def stage_one(self) -> Path | None:
        """Its stage 1 alone, where the run has left it."""
        path = self.folder / stage_file("one")
        return path if path.is_file() else None

    def train(self, longest_s: float = math.inf) -> str:
        """Its model, trained as far as its time (or a shorter one) allows; what is done already is found."""
        config = self.contender.source
        if isinstance(config, str):
            return config
        longest_s = min(longest_s, math.inf if self.minutes is None else 60 * self.minutes)
        digest = data_digest(config.data)
        return str(train_row(config, self.folder, download=self.download, data=digest, longest_s=longest_s))
