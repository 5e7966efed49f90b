"""`soundwhere benchmark propose`: candidates of all frames, ahead of the people."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from soundwhere.errors import SoundwhereError
from soundwhere.terminal.messages import say


@dataclass(frozen=True)
class Options:
    """Run the box prompts of all frames ahead."""

    project: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="PROJECT")]
    """Folder of the project."""
    segmenter: str = "simple"
    """What makes masks: simple, onnx:DIR, or transformers:MODEL."""


def run(options: Options) -> int:
    """Run the command."""
    from soundwhere.annotate.masking import Masker
    from soundwhere.annotate.project import Project
    from soundwhere.annotate.segmenter.protocol import open_segmenter
    from soundwhere.terminal.progress import Bar

    project = Project(options.project)
    masker = Masker(project, open_segmenter(options.segmenter))
    frames = project.store.frames()
    waiting = [frame for frame in frames if not masker.has_candidates(frame)]  # the others would spoil the time left
    failed = 0
    if len(waiting) < len(frames):
        print(f"{len(frames) - len(waiting)} of {len(frames)} frames were ready before")
    with Bar("proposing", len(waiting)) as bar:
        for done, frame in enumerate(waiting, 1):
            try:
                masker.candidates(frame)
            except SoundwhereError as error:
                failed += 1
                say(f"{frame.name}: {error.message}")
            bar.update(done, len(waiting))
    print(f"candidates of {len(frames) - failed} frames by {masker.segmenter.name} are ready")
    which = "" if options.segmenter == Options.segmenter else f" --segmenter {options.segmenter}"
    print(f"next: soundwhere annotate {options.project}{which}")
    return 1 if failed else 0
