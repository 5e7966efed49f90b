"""From prompts to masks, and the next frames made ready while people work."""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from contextlib import suppress
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from PIL import Image as Pillow
from PIL import ImageDraw

from soundwhere.annotate.segmenter.cache import EmbeddingCache
from soundwhere.annotate.segmenter.protocol import ranked
from soundwhere.data.annotation.records import read_json
from soundwhere.data.annotation.rle import decode_rle, encode_rle
from soundwhere.errors import DataError
from soundwhere.files import make_folder, write_text

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from soundwhere.annotate.project import Project
    from soundwhere.annotate.segmenter.protocol import Box, Embedding, Mask, Segmenter
    from soundwhere.annotate.store import FrameRecord

_REMEMBERED: Final = 64  # masks of drafts


class Masker:
    """Masks for a project's frames by one segmenter.

    Args:
        project: Where the frames are.
        segmenter: What makes masks.
    """

    def __init__(self, project: Project, segmenter: Segmenter) -> None:
        self.project = project
        self.segmenter = segmenter
        self.cache = EmbeddingCache(project.root / "embeddings", segmenter)
        self._candidates = make_folder(project.root / "candidates" / segmenter.name)
        self._prompting = threading.Lock()  # apart from embedding, so that a click never waits for another picture
        self._drafts: OrderedDict[str, Mask] = OrderedDict()

    def embedding(self, frame: FrameRecord) -> Embedding:
        """The frame as the segmenter sees it."""
        return self.cache.get(frame.id, lambda: self.project.picture(frame))

    def candidates(self, frame: FrameRecord) -> list[list[dict[str, Any]]]:
        """For each box of a frame three candidates, the best score first: `mask` (run lengths) and `score`.

        Computed once, then kept by the box's place: a box that was moved has candidates of its own.
        """
        return [self._proposed(frame, box) for box in frame.boxes]

    def _proposed(self, frame: FrameRecord, box: Box) -> list[dict[str, Any]]:
        path = self._path(frame, box)
        if path.is_file():
            try:
                kept: list[dict[str, Any]] = read_json(path)
                return kept
            except DataError:
                path.unlink(missing_ok=True)  # damaged: it is computed again
        embedding = self.embedding(frame)
        with self._prompting:
            candidates = ranked(self.segmenter.propose(embedding, box))
        found = [{"mask": encode_rle(one.mask), "score": round(one.score, 4)} for one in candidates]
        write_text(path, json.dumps(found, separators=(",", ":")))
        return found

    def _path(self, frame: FrameRecord, box: Box) -> Path:
        place = sha256(" ".join(f"{value:.1f}" for value in box).encode()).hexdigest()[:12]
        return self._candidates / f"{frame.id:06d}-{place}.json"

    def has_candidates(self, frame: FrameRecord) -> bool:
        """Whether the candidates of every box were computed before."""
        return all(self._path(frame, box).is_file() for box in frame.boxes)

    def mask(self, frame: FrameRecord, prompts: Mapping[str, Any]) -> Mask:
        """The mask that follows from prompts: a candidate, or points, then strokes.

        Points refine the chosen candidate within its box; without a candidate they stand alone.

        Returns:
            Shape (H, W), bool.
        """
        key = f"{frame.id} {frame.boxes} {sorted(prompts.items())!r}"
        known = self._drafts.get(key)
        if known is not None:
            return known
        box, candidate, points = prompts.get("box"), prompts.get("candidate"), prompts.get("points") or []
        mask = np.zeros(frame.size, np.bool_)
        if box is not None and candidate is not None:
            mask = decode_rle(self.candidates(frame)[box][candidate]["mask"])
        if points:
            within = frame.boxes[box] if box is not None and candidate is not None else None
            places = [(float(x), float(y), int(label)) for x, y, label in points]
            embedding = self.embedding(frame)
            with self._prompting:
                mask = self.segmenter.refine(embedding, within, places, mask if within else None)
        for stroke in prompts.get("strokes") or []:
            mask = painted(mask, stroke["points"], stroke.get("radius"), stroke["add"])
        with self._prompting:
            self._drafts[key] = mask
            while len(self._drafts) > _REMEMBERED:
                self._drafts.popitem(last=False)
        return mask


def painted(mask: Mask, points: list[list[float]], radius: float | None, add: bool) -> Mask:
    """A mask with a stroke of a round brush, or a polygon, added or taken away.

    Args:
        mask: Shape (H, W), bool; not changed.
        points: Corners of the stroke's middle line, or of the polygon, [x, y] in pixels.
        radius: Of the brush, pixels; None for a polygon.
        add: Add it, or take it away.
    """
    height, width = mask.shape
    stroke = _inside((height, width), points) if radius is None else _brushed((height, width), points, radius)
    return mask | stroke if add else mask & ~stroke


def _brushed(size: tuple[int, int], points: list[list[float]], radius: float) -> Mask:
    height, width = size
    scale = 2  # drawn larger, so that small radii stay round
    canvas = Pillow.new("1", (width * scale, height * scale))
    draw = ImageDraw.Draw(canvas)
    r = radius * scale
    path = [(x * scale, y * scale) for x, y in points]
    for x, y in path:
        draw.ellipse((x - r, y - r, x + r, y + r), fill=1)
    if len(path) > 1:
        draw.line(path, fill=1, width=max(1, round(2 * r)), joint="curve")
    return np.asarray(canvas.resize((width, height), Pillow.Resampling.NEAREST)).astype(np.bool_)


def _inside(size: tuple[int, int], corners: list[list[float]]) -> Mask:
    """Pixels whose middles lie within a polygon, by the even-odd rule; Pillow's own would add half a pixel around."""
    height, width = size
    middles = np.arange(height) + 0.5
    crossings = np.zeros((height, width + 1), np.int32)
    for (ax, ay), (bx, by) in zip(corners, corners[1:] + corners[:1], strict=True):
        rows = np.flatnonzero((ay > middles) != (by > middles))
        if rows.size:
            places = ax + (middles[rows] - ay) * (bx - ax) / (by - ay)
            crossings[rows, np.clip(np.ceil(places - 0.5), 0, width).astype(np.int64)] += 1
    inside: Mask = np.cumsum(crossings[:, :width], axis=1) % 2 == 1
    return inside


class Ahead:
    """A thread that makes the next frames ready, one at a time, while people work.

    Args:
        masker: What makes them ready.
    """

    def __init__(self, masker: Masker) -> None:
        self._masker = masker
        self._wanted: list[FrameRecord] = []
        self._changed = threading.Condition()
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="ahead", daemon=True)
        self._thread.start()

    def want(self, frames: list[FrameRecord]) -> None:
        """Make these ready next, in this order, instead of what was wanted before."""
        with self._changed:
            self._wanted = list(frames)
            self._changed.notify()

    def stop(self) -> None:
        """Finish the frame at hand and end."""
        with self._changed:
            self._stopped = True
            self._changed.notify()
        self._thread.join(timeout=30)

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._wanted and not self._stopped:
                    self._changed.wait()
                if self._stopped:
                    return
                frame = self._wanted.pop(0)
            if not self._masker.has_candidates(frame) or frame.id not in self._masker.cache:
                with suppress(Exception):  # whoever opens that frame is told why
                    self._masker.candidates(frame)
                    self._masker.embedding(frame)
