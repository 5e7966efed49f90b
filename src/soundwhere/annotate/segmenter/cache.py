"""Embeddings on disk, so that a picture is looked at once, by whoever needs it first."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

import numpy as np

from soundwhere.annotate.segmenter.protocol import Embedding
from soundwhere.files import NPZ_ERRORS, atomic_path, make_folder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from soundwhere.annotate.segmenter.protocol import Segmenter
    from soundwhere.types import Image

_IN_MEMORY: Final = 4


class EmbeddingCache:
    """Embeddings of one segmenter by frame number: a few in memory, many on disk, the oldest removed.

    Args:
        folder: Where they are kept, in a folder named after the segmenter.
        segmenter: Whose they are.
        most: How many stay on disk; SAM 2's take 8 MB each.
    """

    def __init__(self, folder: Path, segmenter: Segmenter, most: int = 500) -> None:
        self.segmenter = segmenter
        self._looking = threading.Lock()  # one picture at a time
        self._remembering = threading.Lock()
        self._folder = make_folder(folder / segmenter.name)
        self._most = most
        self._memory: OrderedDict[int, Embedding] = OrderedDict()

    def __contains__(self, frame: int) -> bool:
        return self._path(frame).is_file()

    def get(self, frame: int, image: Callable[[], Image]) -> Embedding:
        """The embedding of a frame, computed and kept if it is not there; one that is there never waits for others."""
        embedding = self._recall(frame)
        if embedding is None:
            with self._looking:
                embedding = self._recall(frame)  # somebody else may have been faster
                if embedding is None:
                    embedding = self.segmenter.embed(image())
                    self._write(frame, embedding)
        with self._remembering:
            self._memory[frame] = embedding
            self._memory.move_to_end(frame)
            while len(self._memory) > _IN_MEMORY:
                self._memory.popitem(last=False)
        return embedding

    def _recall(self, frame: int) -> Embedding | None:
        with self._remembering:
            embedding = self._memory.get(frame)
        return embedding or self._read(frame)

    def _path(self, frame: int) -> Path:
        return self._folder / f"{frame:06d}.npz"

    def _read(self, frame: int) -> Embedding | None:
        try:
            with np.load(self._path(frame), allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files if name != "size"}
                height, width = (int(side) for side in file["size"])
                return Embedding((height, width), arrays)
        except (*NPZ_ERRORS, KeyError, TypeError):
            return None  # not there, or damaged: it is computed again

    def _write(self, frame: int, embedding: Embedding) -> None:
        with atomic_path(self._path(frame)) as temporary:
            np.savez(temporary, allow_pickle=False, size=np.array(embedding.size), **embedding.arrays)
        kept = sorted(self._folder.glob("*.npz"), key=lambda path: path.stat().st_mtime)
        for path in kept[: -self._most]:
            path.unlink(missing_ok=True)
