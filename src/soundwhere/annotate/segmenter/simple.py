"""A segmenter that needs no weights: superpixels, colour and edges, and a minimal cut between object and ground.

It works as GrabCut does, on some hundred superpixels instead of all pixels: colours inside and outside the box tell
object from ground, edges between neighbours tell where the border may run cheaply, and the cheapest border is found.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
from PIL import Image as Pillow
from scipy import ndimage
from scipy.sparse import coo_array
from scipy.sparse.csgraph import breadth_first_order, dijkstra, maximum_flow

from soundwhere.annotate.segmenter.protocol import Candidate, Embedding, choose

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from soundwhere.annotate.segmenter.protocol import Box, Mask, Point
    from soundwhere.types import Image

    Floats = NDArray[Any]  # float32

_WORKING_PX: Final = 320  # longest side at which superpixels are made
_SUPERPIXELS: Final = 600
_ITERATIONS: Final = 4
_COMPACTNESS: Final = 12.0  # colour difference that weighs as much as one superpixel's width
_BANDWIDTH: Final = 9.0  # of colours that count as alike, CIELAB
_EXTENTS: Final = (-1.2, 0.0, 1.2)  # log-odds added for the three candidates: tight, medium, loose
_SMOOTHNESS: Final = 1.5  # price of a border where there is no edge
_ROUNDS: Final = 4
_USUAL_FILL: Final = 0.6  # of a box by its object
_CERTAIN: Final = 1e4
_SCALE: Final = 1000  # of prices, which the flow wants as whole numbers


class SimpleSegmenter:
    """Box and points to masks by colour and edges. The same picture and prompts always give the same masks."""

    name = "simple-1"

    def embed(self, image: Image) -> Embedding:
        """Cut the picture into superpixels; about a tenth of a second."""
        height, width = image.shape[:2]
        scale = min(1.0, _WORKING_PX / max(height, width))
        size = (max(1, round(width * scale)), max(1, round(height * scale)))
        small = Pillow.fromarray(image).resize(size, Pillow.Resampling.BOX)
        lab = ndimage.gaussian_filter(_lab(np.asarray(small)), (0.7, 0.7, 0)).astype(np.float32)
        labels = superpixels(lab, _SUPERPIXELS)
        return Embedding((height, width), {"labels": labels.astype(np.int32), "lab": lab.astype(np.float16)})

    def propose(self, embedding: Embedding, box: Box) -> list[Candidate]:
        """Three masks of different extent within the box, the tightest first."""
        graph = _Graph(embedding)
        inside = graph.share_in(box)
        middle = inside * graph.nearness_to_centre(box)
        cells = inside > 0.5 if (inside > 0.5).any() else inside >= inside.max()
        odds = graph.grab(middle, 1 - inside, cells)
        candidates = []
        for extent in _EXTENTS:
            chosen = graph.cut(np.where(cells, odds + extent, -_CERTAIN))
            chosen = chosen if chosen.any() else cells & (odds >= np.median(odds[cells]))
            candidates.append(Candidate(graph.mask(chosen, box), graph.score(chosen, odds, cells)))
        return candidates

    def refine(
        self, embedding: Embedding, box: Box | None, points: Sequence[Point], previous: Mask | None = None
    ) -> Mask:
        """One mask that holds the points of the object and none of the others."""
        graph = _Graph(embedding)
        allowed = np.ones(graph.count, np.bool_) if box is None else graph.share_in(box) > 0.5
        wanted = graph.at([point for point in points if point[2] == 1])
        unwanted = graph.at([point for point in points if point[2] != 1])
        unwanted = np.setdiff1d(unwanted, wanted)
        allowed[wanted] = True
        if not len(wanted):
            start = graph.share_of(previous) > 0.5 if previous is not None else allowed
            wanted = np.flatnonzero(start & allowed)
            wanted = np.setdiff1d(wanted, unwanted)
        if not len(wanted):
            return np.zeros(embedding.size, np.bool_)
        if previous is not None and previous.any():
            odds = np.where(graph.share_of(previous) > 0.5, 1.5, -1.5)
            odds = odds + 4 * (graph.likeness(wanted) - graph.likeness(unwanted)) * graph.nearness_to(
                np.concatenate([wanted, unwanted])
            )
        else:
            odds = graph.odds_around(wanted, unwanted, allowed)
        odds[wanted], odds[unwanted] = _CERTAIN, -_CERTAIN
        chosen = graph.connected(graph.cut(np.where(allowed, odds, -_CERTAIN)), wanted)
        return choose([graph.mask(chosen, box)], [1.0], previous)


class _Graph:
    """The superpixels of a picture and the edges between them."""

    def __init__(self, embedding: Embedding) -> None:
        self.size = embedding.size
        self.labels = embedding.arrays["labels"]
        lab = embedding.arrays["lab"].astype(np.float32)
        flat = self.labels.ravel()
        self.count = int(flat.max()) + 1
        self.area = np.bincount(flat, minlength=self.count).astype(np.float32)
        self.colour = np.stack([self._mean(lab[..., channel]) for channel in range(3)], 1)
        places: Floats = np.indices(self.labels.shape, dtype=np.float32)
        self.place = np.stack([self._mean(places[1]), self._mean(places[0])], 1)
        distance = ((self.colour[:, None] - self.colour[None]) ** 2).sum(-1)
        self.alike = np.exp(-distance / (2 * _BANDWIDTH**2)) * self.area[None]  # as a kernel density weighs them
        self._edges(lab)

    def _mean(self, values: Floats) -> Floats:
        sums = np.bincount(self.labels.ravel(), values.ravel(), minlength=self.count)
        return np.asarray(sums / np.maximum(self.area, 1), np.float32)

    def _edges(self, lab: Floats) -> None:
        """Neighbours, the length of their border, and what a cut along it costs."""
        pairs, steps = [], []
        for axis in (0, 1):
            first = np.take(self.labels, range(self.labels.shape[axis] - 1), axis)
            second = np.take(self.labels, range(1, self.labels.shape[axis]), axis)
            border = first != second
            pairs.append(np.sort(np.stack([first[border], second[border]], 1), 1))
            steps.append(np.abs(np.diff(lab, axis=axis)).sum(-1)[border])
        ends = np.concatenate(pairs)
        codes, inverse, length = np.unique(
            ends[:, 0] * self.count + ends[:, 1], return_inverse=True, return_counts=True
        )
        self.first, self.second = codes // self.count, codes % self.count
        step = np.bincount(inverse, np.concatenate(steps)) / length
        colour = np.sqrt(((self.colour[self.first] - self.colour[self.second]) ** 2).sum(-1))
        contrast = 0.5 * step + 0.5 * colour
        self.contrast = contrast / max(float(np.average(contrast, weights=length)) if len(length) else 1.0, 1e-3)
        typical = np.sqrt(np.median(self.area))
        self.price = _SMOOTHNESS * length / typical * np.exp(-(self.contrast**2) / 2)

    def _scaled(self, x: float, y: float) -> tuple[float, float]:
        rows, columns = self.labels.shape
        return x * columns / self.size[1], y * rows / self.size[0]

    def at(self, points: Sequence[Point]) -> NDArray[np.intp]:
        """The superpixels in which points lie."""
        rows, columns = self.labels.shape
        found = set()
        for x, y, _ in points:
            column, row = self._scaled(x, y)
            found.add(int(self.labels[min(int(row), rows - 1), min(int(column), columns - 1)]))
        return np.array(sorted(found), np.intp)

    def share_in(self, box: Box) -> Floats:
        """Which share of each superpixel lies in a box."""
        inside = np.zeros(self.labels.shape, np.float32)
        (left, top), (right, bottom) = self._scaled(box[0], box[1]), self._scaled(box[2], box[3])
        rows = slice(int(top), max(int(np.ceil(bottom)), int(top) + 1))
        inside[rows, int(left) : max(int(np.ceil(right)), int(left) + 1)] = 1
        return self._mean(inside)

    def share_of(self, mask: Mask) -> Floats:
        """Which share of each superpixel a mask covers."""
        rows, columns = self.labels.shape
        small = Pillow.fromarray(mask.astype(np.uint8) * 255).resize((columns, rows), Pillow.Resampling.BOX)
        return self._mean(np.asarray(small, np.float32) / 255)

    def nearness_to_centre(self, box: Box) -> Floats:
        """1 in the middle of a box, about 0.1 in its corners."""
        (left, top), (right, bottom) = self._scaled(box[0], box[1]), self._scaled(box[2], box[3])
        half = np.array([max(right - left, 1), max(bottom - top, 1)]) / 2
        away = (self.place - np.array([(left + right) / 2, (top + bottom) / 2])) / half
        return np.asarray(np.exp(-1.2 * (away**2).sum(-1)), np.float32)

    def nearness_to(self, cells: NDArray[np.intp]) -> Floats:
        """1 at some superpixels, less the farther from all of them."""
        if not len(cells):
            return np.zeros(self.count, np.float32)
        gaps = np.sqrt(((self.place[:, None] - self.place[None, cells]) ** 2).sum(-1)).min(1)
        return np.asarray(np.exp(-gaps / (0.25 * max(self.labels.shape))), np.float32)

    def likeness(self, cells: NDArray[np.intp]) -> Floats:
        """How alike in colour each superpixel is to the most alike of some, 0 to 1."""
        if not len(cells):
            return np.zeros(self.count, np.float32)
        distance = ((self.colour[:, None] - self.colour[None, cells]) ** 2).sum(-1).min(1)
        return np.asarray(np.exp(-distance / (2 * _BANDWIDTH**2)), np.float32)

    def grab(self, within: Floats, outside: Floats, cells: NDArray[np.bool_]) -> Floats:
        """Log-odds of being object, from two colour models that are estimated in turn with the mask."""
        own, ground = within, outside
        odds: Floats = np.zeros(self.count, np.float32)
        for _ in range(_ROUNDS):
            odds = self._odds(own, ground)
            chosen = self.cut(np.where(cells, odds + 0.8 * (within > 0.6) - 0.2, -_CERTAIN))
            if not chosen.any():
                break
            own = chosen + 0.2 * within
            ground = np.where(chosen, 0, np.where(cells, 0.5, 1.0))
        return odds

    def _odds(self, own: Floats, ground: Floats) -> Floats:
        p = self.alike @ own / max(float((own * self.area).sum()), 1e-6)
        q = self.alike @ ground / max(float((ground * self.area).sum()), 1e-6)
        least = 1e-3 * max(float(p.max()), float(q.max()), 1e-9)
        return np.asarray(np.clip(np.log((p + least) / (q + least)), -4, 4), np.float32)

    def odds_around(self, wanted: NDArray[np.intp], unwanted: NDArray[np.intp], allowed: NDArray[np.bool_]) -> Floats:
        """Log-odds for points alone: like the points in colour, and reached from them without crossing edges."""
        reach = self._reach(wanted)
        own = np.where(reach < 0.5, self.likeness(wanted), 0)
        own[wanted] = 1
        rim = np.unique(np.concatenate([self.labels[0], self.labels[-1], self.labels[:, 0], self.labels[:, -1]]))
        ground = np.zeros(self.count, np.float32)
        ground[rim] = 0.5
        ground[reach > 1.5] = 1
        ground[~allowed] = 1
        ground[unwanted] = 3
        ground[wanted] = 0
        odds = self._odds(own.astype(np.float32), ground)
        return np.asarray(
            odds + 2.5 * (1 - reach) - 2 * self.likeness(unwanted) * self.nearness_to(unwanted), np.float32
        )

    def _reach(self, cells: NDArray[np.intp]) -> Floats:
        """How far each superpixel is from some, where crossing an edge is far; 1 is a usual object's size."""
        steps = 0.25 + self.contrast**2
        graph = coo_array((steps, (self.first, self.second)), (self.count, self.count)).tocsr()
        distances = dijkstra(graph, directed=False, indices=cells).min(0)
        near = np.isfinite(distances)
        unit = 0.18 * np.sqrt(self.count)
        return np.asarray(np.minimum(np.where(near, distances, 1e3) / unit, 4), np.float32)

    def cut(self, odds: NDArray[np.floating]) -> NDArray[np.bool_]:
        """The cheapest split of the superpixels into object and ground, given log-odds."""
        source, sink = self.count, self.count + 1
        everyone = np.arange(self.count)
        toward = np.clip(odds, 0, _CERTAIN), np.clip(-odds, 0, _CERTAIN)
        heads = np.concatenate([self.first, self.second, np.full(self.count, source), everyone])
        tails = np.concatenate([self.second, self.first, everyone, np.full(self.count, sink)])
        prices = np.concatenate([self.price, self.price, *toward])
        capacity = coo_array(((prices * _SCALE).astype(np.int32), (heads, tails)), (self.count + 2,) * 2).tocsr()
        left = capacity - maximum_flow(capacity, source, sink).flow
        left.data = np.maximum(left.data, 0)
        left.eliminate_zeros()
        reached = breadth_first_order(left, source, return_predecessors=False)
        chosen = np.zeros(self.count + 2, np.bool_)
        chosen[reached] = True
        return chosen[: self.count]

    def connected(self, chosen: NDArray[np.bool_], wanted: NDArray[np.intp]) -> NDArray[np.bool_]:
        """The parts that hold one of some superpixels."""
        parts, _ = ndimage.label(chosen[self.labels])
        held = np.isin(self.labels, wanted)
        kept = np.isin(parts, np.unique(parts[held & (parts > 0)]))
        result = np.zeros(self.count, np.bool_)
        result[np.unique(self.labels[kept & (parts > 0)])] = True
        return result

    def score(self, chosen: NDArray[np.bool_], odds: Floats, cells: NDArray[np.bool_]) -> float:
        """0 to 1: how strong the border's edges are, how sure the colours inside, how well the box is filled."""
        across = chosen[self.first] != chosen[self.second]
        if not across.any() or not chosen.any():
            return 0.0
        edge = 1 - np.exp(-float(np.average(self.contrast[across], weights=self.price[across] + 1e-3)))
        sure = 1 / (1 + np.exp(-float(np.average(odds[chosen], weights=self.area[chosen]))))
        filled = min(1.0, float(self.area[chosen].sum() / self.area[cells].sum()) / _USUAL_FILL)
        return float(np.clip(0.3 * edge + 0.3 * sure + 0.4 * filled, 0, 1))

    def mask(self, chosen: NDArray[np.bool_], box: Box | None) -> Mask:
        """Chosen superpixels as a mask of the picture's size, its border smoothed, nothing outside the box."""
        height, width = self.size
        small = chosen[self.labels].astype(np.float32)
        small = ndimage.gaussian_filter(ndimage.median_filter(small, 3), 0.7)
        large = Pillow.fromarray(small).resize((width, height), Pillow.Resampling.BILINEAR)
        mask: Mask = np.asarray(large) > 0.5
        if box is not None:
            limits = np.zeros(self.size, np.bool_)
            left, top, right, bottom = box
            limits[max(0, int(top)) : int(np.ceil(bottom)), max(0, int(left)) : int(np.ceil(right))] = True
            mask = mask & limits
        return mask


def superpixels(lab: Floats, wanted: int) -> NDArray[np.int64]:
    """SLIC: pixels grouped by colour and place around a grid of moving centres, each pixel choosing among nine.

    Args:
        lab: Shape (H, W, 3), CIELAB.
        wanted: About how many.

    Returns:
        A number for each pixel, shape (H, W); all numbers from 0 on are used.
    """
    height, width = lab.shape[:2]
    step = max(1.0, np.sqrt(height * width / wanted))
    rows, columns = max(1, round(height / step)), max(1, round(width / step))
    y, x = np.indices((height, width), dtype=np.float32)
    cell_y = np.minimum((y * rows / height).astype(np.int64), rows - 1)
    cell_x = np.minimum((x * columns / width).astype(np.int64), columns - 1)
    labels = cell_y * columns + cell_x
    weight = _COMPACTNESS / step
    features = np.concatenate([lab, x[..., None] * weight, y[..., None] * weight], -1).astype(np.float32)
    around = [(dy, dx) for dy in (-1, 0, 1) for dx in (-1, 0, 1)]
    for _ in range(_ITERATIONS):
        flat = labels.ravel()
        area = np.maximum(np.bincount(flat, minlength=rows * columns), 1)
        sums = [np.bincount(flat, features[..., k].ravel(), minlength=rows * columns) for k in range(5)]
        centres = (np.stack(sums, 1) / area[:, None]).astype(np.float32)
        best = np.full((height, width), np.inf, np.float32)
        for dy, dx in around:
            row, column = cell_y + dy, cell_x + dx
            valid = (row >= 0) & (row < rows) & (column >= 0) & (column < columns)
            label = np.clip(row, 0, rows - 1) * columns + np.clip(column, 0, columns - 1)
            distance = ((features - centres[label]) ** 2).sum(-1)
            closer = valid & (distance < best)
            best = np.where(closer, distance, best)
            labels = np.where(closer, label, labels)
    return np.unique(labels, return_inverse=True)[1].reshape(height, width)


def _lab(image: NDArray[np.uint8]) -> Floats:
    """SRGB to CIELAB under D65."""
    linear = image.astype(np.float32) / 255
    linear = np.where(linear > 0.04045, ((linear + 0.055) / 1.055) ** 2.4, linear / 12.92)
    matrix = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]], np.float32)
    xyz = linear @ matrix.T / np.array([0.9505, 1.0, 1.089], np.float32)
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.stack([116 * f[..., 1] - 16, 500 * (f[..., 0] - f[..., 1]), 200 * (f[..., 1] - f[..., 2])], -1)
