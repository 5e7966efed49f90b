"""`soundwhere bench seam`: joined features of single frames, beside those of the joined picture."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from soundwhere.terminal.measurements import FiguresFile, check_scenes, keep_figures


@dataclass(frozen=True)
class Options:
    """How much joined features of single frames differ from features of the joined picture."""

    root: Path
    """Folder of the real-duet set; its val duets are encoded."""
    visual_weights: str = "imagenet"
    """Weights of the visual encoder: `imagenet` or a file."""
    model: str = "scav-mobile"
    """Model whose visual encoder is used."""
    scenes: int = 64
    """How many duets."""
    json: FiguresFile = None


def run(options: Options) -> None:
    """Run the measurement."""
    from soundwhere.bench.seam import seam_difference
    from soundwhere.data.real_duet import RealDuet
    from soundwhere.methods.catalogue import named_config
    from soundwhere.methods.files import build

    check_scenes(options.scenes)
    weights: dict[str, Any] = {"visual_weights": options.visual_weights, "audio_weights": "none"}  # nothing is heard
    config = replace(named_config(options.model), **weights)
    model = build(config).eval()
    model.load_pretrained(download=False)
    duets = RealDuet(options.root).scenes("duets_val", config.frame_px)[: options.scenes]
    shares = seam_difference(model, duets)
    print(f"{options.model}, {len(duets)} duets of real-duet val: ||whole - joined|| / ||whole||")
    for column, share in enumerate(shares, 1):
        print(f"  {column} cells from the seam  {100 * share:5.1f} %")
    rows = [{"cells": column, "difference": share} for column, share in enumerate(shares, 1)]
    keep_figures(options.json, f"seam --model {options.model} --scenes {options.scenes}", {"rows": rows})
