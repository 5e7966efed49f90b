"""At which scale the paper is run again: whose data, with which recipe, and what `--quick` makes of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, get_args

ScaleName = Literal["made-up", "real", "paper"]
PartName = Literal["data-sets", "theory", "compare", "convergence", "ablation", "protocols", "figures"]
PARTS: Final[tuple[PartName, ...]] = get_args(PartName)
QUICK_STEPS, QUICK_SCENES, QUICK_CLIPS = 60, 40, 320
MADE_UP_CLIPS, MADE_UP_SCENES = 1920, 300


@dataclass(frozen=True)
class Scale:
    """Whose data.

    Attributes:
        recipe: SCAV's configuration.
        benchmarks: Of the main tables; the first is also that of the ablation and the figures.
    """

    recipe: Path
    benchmarks: tuple[str, ...]


_DUETS: Final = ("real-duet", "real-trio")
SCALES: Final[dict[ScaleName, Scale]] = {
    "made-up": Scale(Path("configs/made-up-reproduction.toml"), _DUETS),  # clips in the layout of real-duet
    "real": Scale(Path("configs/real-duet.toml"), _DUETS),
    "paper": Scale(
        Path("configs/paper.toml"), ("vggsound-duet", "vggsound-duet-mask", "vggsound-instruments-duet", "music-duet")
    ),
}
