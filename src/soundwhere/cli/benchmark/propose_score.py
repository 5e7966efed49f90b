"""`soundwhere benchmark propose-score`: a segmenter's proposals against masks that people drew."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from soundwhere.terminal.options import named


@dataclass(frozen=True)
class Options:
    """Measure a segmenter's proposals for boxes against masks that people drew."""

    data: Annotated[Path, tyro.conf.arg(metavar="DIR")]
    """Folder of real-duet, or another with such an images.csv."""
    segmenter: str = "simple"
    """What makes masks: simple, onnx:DIR, or transformers:MODEL."""
    split: Literal["train", "val", "test"] = "val"
    """Which photos."""
    photos: int = 60
    """How many, spread evenly over the list: with one box and a human mask each."""
    out: Annotated[Path | None, named("FILE")] = None
    """CSV file for the figures of each photo."""
    json: Annotated[Path | None, named("FILE")] = None
    """Write what is printed there too, such as docs/figures/segmenter.json."""


def run(options: Options) -> int:
    """Run the command."""
    from soundwhere.annotate.proposals import ANSWERS, choose_photos, score_proposals, summarise
    from soundwhere.annotate.segmenter.protocol import open_segmenter
    from soundwhere.files import write_json, write_text
    from soundwhere.terminal.progress import Bar
    from soundwhere.terminal.tables import print_grid

    rows = choose_photos(options.data, options.split, options.photos)
    segmenter = open_segmenter(options.segmenter)
    with Bar("proposing", len(rows), "photos") as bar:
        proposed = score_proposals(segmenter, rows, bar.update)
    print(
        f"mean IoU with human masks (95 % interval): {len(rows)} photos of {options.split}, one box each, "
        f"by {segmenter.name}"
    )
    summary = summarise(proposed)
    lines = [
        [line.name, str(line.boxes), *(f"{it.value:.3f} ({it.low:.3f} to {it.high:.3f})" for it in line.iou.values())]
        for line in summary
    ]
    print_grid(["boxes", "photos", *ANSWERS.values()], lines, ends=(0, 3))
    first, right = (sum(getattr(one, name) for one in proposed) for name in ("scored_first", "right"))
    print(f"the segmenter's own first answer has the best score in {first} of {len(rows)} boxes")
    print(f"key 1, the best score, is the best of the three in {right} of {len(rows)} boxes")
    if options.json is not None:
        asked = f"--segmenter {options.segmenter} --split {options.split} --photos {options.photos}"
        write_json(
            options.json,
            {
                "command": f"soundwhere benchmark propose-score {asked}",
                "rows": [asdict(line) for line in summary],
                "scored_first": first,
                "right": right,
            },
        )
    if options.out is not None:
        facts = [
            ",".join([one.image, f"{one.size:.4f}", f"{one.fill:.4f}", *(f"{one.iou[key]:.4f}" for key in ANSWERS)])
            for one in proposed
        ]
        write_text(options.out, "\n".join([f"image,size,fill,{','.join(ANSWERS)}", *facts]) + "\n")
        print(f"wrote {options.out}")
    return 0
