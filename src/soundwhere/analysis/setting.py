"""What of the appendix can be set. Imports nothing that takes time: its fields are options of a command."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from soundwhere.constants import MASK_TEMPERATURE, POSITIVE_THRESHOLD
from soundwhere.errors import ConfigError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Setting:
    """The data model of Assumptions 1 to 3, and how P is climbed.

    Attributes:
        alpha: Audio response of each source along its direction.
        beta: Mean matching strength of each region's cells.
        spread: Matching strengths lie within plus or minus this share of their mean; the appendix takes them as equal.
        sigma: Length of each cell's noise, in a direction drawn at random.
        threshold: epsilon_p of the soft mask.
        tau: Temperature of the soft mask.
        cells: Cells of each region.
        dimension: D.
        rate: Learning rate eta.
        steps: Steps of gradient ascent.
        seed: Of the noise.
    """

    alpha: tuple[float, float] = (1.0, 0.7)
    beta: tuple[float, float] = (0.8, 0.8)
    spread: float = 0.0
    sigma: float = 0.02
    threshold: float = POSITIVE_THRESHOLD
    tau: float = MASK_TEMPERATURE
    cells: tuple[int, int] = (49, 49)
    dimension: int = 16
    rate: float = 0.02
    steps: int = 200
    seed: int = 0

    def __post_init__(self) -> None:
        positive = (*self.alpha, *self.beta, self.tau, self.rate)
        if not all(map(math.isfinite, (*positive, self.sigma, self.threshold, self.spread))) or min(positive) <= 0:
            raise ConfigError(
                f"alpha {self.alpha}, beta {self.beta}, tau {self.tau:g} and rate {self.rate:g} cannot be simulated.",
                "They must be greater than 0, and every number finite.",
            )
        if self.sigma < 0 or not 0 <= self.spread < 1:
            raise ConfigError(
                f"sigma is {self.sigma:g} and spread {self.spread:g}.", "sigma is at least 0, spread from 0 to below 1."
            )
        if min(*self.cells, self.steps) < 1 or self.dimension < 2 or self.seed < 0:
            raise ConfigError(
                f"{self.cells} cells, {self.dimension} dimensions, {self.steps} steps, seed {self.seed}.",
                "There is at least one cell in each region, one step, two dimensions, and no seed below 0.",
            )
        if self.gains[0] <= self.gains[1]:
            raise ConfigError(
                f"alpha x beta is {self.gains[0]:g} for source 1 and {self.gains[1]:g} for source 2.",
                "The appendix calls the stronger source 1: exchange them, or make the first stronger.",
            )

    @property
    def gains(self) -> tuple[float, float]:
        """g_k = alpha_k x mean beta_k: the mean similarity each region begins with, without normalisation."""
        return self.alpha[0] * self.beta[0], self.alpha[1] * self.beta[1]

    @property
    def start(self) -> NDArray[np.float64]:
        """The audio representation at step 0, shape (D,): alpha1 u1 + alpha2 u2, u1 and u2 being the first two axes."""
        import numpy as np

        start = np.zeros(self.dimension)
        start[:2] = self.alpha
        return start

    @property
    def noise_bound(self) -> float:
        """Lemma 1's bound of a cell's noise, sigma (alpha1 + alpha2)."""
        return self.sigma * sum(self.alpha)

    @property
    def regions(self) -> tuple[slice, slice]:
        """The cells of each region."""
        first, second = self.cells
        return slice(0, first), slice(first, first + second)
