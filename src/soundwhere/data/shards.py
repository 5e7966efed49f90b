"""Clips out of tar shards, any of them at any time, so that a step's scenes depend on the seed and the step alone.

`wids`, which the webdataset package once had for random access, was considered: it is not part of webdataset 1.0 any
more, and it reads every header of a tar to find its samples, for every shard and process anew, where the index here is
mapped and says at once where a clip lies. A tar header is 512 bytes, of which a name and a size are all that is needed.
"""

from __future__ import annotations

import warnings
from collections import OrderedDict
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from soundwhere.constants import CLIP_SAMPLES, SAMPLE_RATE_HZ
from soundwhere.data.shard_cache import LocalFiles, RemoteFiles, remote_address
from soundwhere.data.shard_index import INDEX, MANIFEST, NO_KIND, clip_key, read_index, read_manifest
from soundwhere.errors import DataError, MediaError
from soundwhere.files import cache_folder
from soundwhere.media.audio import centre_clip
from soundwhere.media.encoded import decode_jpeg, decode_sound

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from soundwhere.data.shard_cache import ShardFiles
    from soundwhere.types import Image, Waveform

_BLOCK: Final = 512
_MOST_OPEN: Final = 1024  # shards mapped at a time: systems allow some ten thousand
_REMEDY: Final = "Run `soundwhere prepare verify` on the folder, then prepare or copy what it names again."


class ShardClips:
    """A `ClipSource` of prepared clips. Opening takes as long for a hundred as for millions.

    Args:
        root: The folder of a set, or its address (http(s), s3, gs, ...).
        labels: Whether classes may be asked for.
        cache: Folder for copies of remote shards; by default below the user's cache folder.
        cache_gb: How much they may take up.

    Attributes:
        frames: How many frames a clip has at most. Number `index + frame * len(clips)` asks for one of them.

    Raises:
        DataError: It is not a set of shards, or it is not complete.
    """

    def __init__(
        self, root: Path | str, labels: bool = False, cache: Path | None = None, cache_gb: float = 100.0
    ) -> None:
        address = remote_address(root)
        self.name = address or str(root)
        limit = int(cache_gb * 1e9)
        self._files: ShardFiles = (
            RemoteFiles(address, cache or cache_folder() / "shards", limit) if address else LocalFiles(Path(root))
        )
        manifest = read_manifest(self._files.path(MANIFEST), self.name)
        header, self._records = self._whole(manifest)
        self._shards: list[dict[str, Any]] = header["shards"]
        self._recipe, self._features = header["recipe"], header["features"]
        self._labels, self._classes = labels, header["classes"]
        self.frames: int = self._recipe["frames"]
        self._open: OrderedDict[int, NDArray[np.uint8]] = OrderedDict()
        if address and sum(shard["tar_bytes"] for shard in self._shards) > limit:
            warnings.warn(
                f"{self.name} is larger than the cache of {cache_gb:g} GB: shards will be copied again and again. "
                "Raise --shard-cache-gb.",
                stacklevel=3,
            )

    def _whole(self, manifest: dict[str, Any]) -> tuple[dict[str, Any], NDArray[np.void]]:
        """The index of the set, which must be that of its manifest."""
        path = self._files.path(INDEX)
        if not path.exists():
            raise DataError(
                f"{self.name} is not complete: it has no {INDEX}.", "Run `soundwhere prepare` again: it goes on."
            )
        header, records = read_index(path)
        if header.get("recipe") != manifest["recipe"] or len(header.get("shards", ())) != manifest["shards"]:
            raise DataError(f"{path} is the index of another set than {MANIFEST}.", _REMEDY)
        if not len(records):
            raise DataError(f"{self.name} holds no clip: all of them have problems.", "Look into its problems.csv.")
        return header, records

    def __len__(self) -> int:
        return len(self._records)

    @cached_property
    def kinds(self) -> Sequence[str] | None:
        """The class of every clip, if labels may be read and every clip has one."""
        numbers = self._records["kind"]
        if not self._labels or (numbers == NO_KIND).any():
            return None
        return [self._classes[number] for number in numbers]

    def key(self, number: int) -> str:
        """See `ClipSource`."""
        frame, index = divmod(number, len(self))
        first, second = self._records[index]["picture"].tolist()
        return f"shard|{first:016x}{second:016x}|{frame}"

    def image(self, number: int) -> Image:
        """See `ClipSource`."""
        frame, index = divmod(number, len(self))
        record = self._records[index]
        image: Image = self._decoded(decode_jpeg, record, f"{frame % int(record['frames'])}.jpg")
        return image

    def sound(self, number: int, rng: np.random.Generator | None = None) -> Waveform:
        """3 s of the sound that include the frame: any with `rng`, without those around it."""
        frame, index = divmod(number, len(self))
        record = self._records[index]
        recording: Waveform = self._decoded(decode_sound, record, self._recipe["sound"])
        spare = len(recording) - CLIP_SAMPLES
        if spare <= 0:
            return centre_clip(recording)
        low, high = _windows(len(recording), record, frame)
        start = (low + high) // 2 if rng is None else int(rng.integers(low, high + 1))
        return recording[start : start + CLIP_SAMPLES]

    def facts(self, index: int) -> dict[str, Any]:
        """What is known of a clip: its name in the list, its file, its times."""
        import json

        return dict(json.loads(bytes(self._members(self._records[index])["json"])))

    def has_features(self, encoder: str, frame_px: int) -> bool:
        """Whether the features of an encoder are stored, of frames squashed to a side."""
        return bool(self._features == {"encoder": encoder, "frame_px": frame_px})

    def features(self, number: int) -> NDArray[np.float16]:
        """Stored features of a frame, shape (C, h, w)."""
        frame, index = divmod(number, len(self))
        record = self._records[index]
        stored = self._decoded(lambda data: np.load(BytesIO(data)), record, "features.npy")
        features: NDArray[np.float16] = stored[frame % len(stored)]
        return features

    def _decoded(self, decode: Any, record: np.void, ending: str) -> Any:
        """Decode one of a clip's files."""
        try:
            return decode(self._members(record)[ending])
        except (MediaError, KeyError, ValueError) as error:
            tar = self._shards[int(record["shard"])]["tar"]
            name = f"{clip_key(int(record['number']))}.{ending}"
            raise DataError(f"{self.name}, {tar}: {name} is missing or damaged.", _REMEDY) from error

    def _members(self, record: np.void) -> dict[str, memoryview]:
        shard = int(record["shard"])
        content = self._content(shard)
        try:
            return members_of(content, record)
        except DataError as error:
            place = f"{self.name}, {self._shards[shard]['tar']}, clip {clip_key(int(record['number']))}"
            raise DataError(f"{place}: {error.message}.", _REMEDY) from error

    def _content(self, shard: int) -> NDArray[np.uint8]:
        """The bytes of a shard, mapped."""
        if shard in self._open:
            self._open.move_to_end(shard)
            return self._open[shard]
        facts = self._shards[shard]
        for attempt in range(3):
            path = self._files.path(facts["tar"])
            try:
                content = np.memmap(path, np.uint8, "r")
                break
            except FileNotFoundError as error:  # another process made room for a shard of its own just now
                if attempt == 2:
                    raise DataError(f"{path} is missing.", _REMEDY) from error
            except (OSError, ValueError) as error:
                raise DataError(f"{path} cannot be read: {error}.", _REMEDY) from error
        if len(content) != facts["tar_bytes"]:
            raise DataError(
                f"{path} has {len(content)} bytes instead of {facts['tar_bytes']}: it is cut short, or another tar.",
                _REMEDY,
            )
        self._open[shard] = content
        if len(self._open) > _MOST_OPEN:
            self._open.popitem(last=False)
        return content

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_open": OrderedDict()}  # another process maps its own


def members_of(content: NDArray[np.uint8], record: np.void) -> dict[str, memoryview]:
    """The files of a clip by their endings, out of the bytes of its tar.

    Raises:
        DataError: The tar ends before, or something else is there.
    """
    key, begin = clip_key(int(record["number"])), int(record["offset"])
    place, end = begin, begin + int(record["size"])
    if end > len(content):
        raise DataError(f"it ends at byte {end}, but the tar, which is cut short, at {len(content)}")
    view, found = content.data, {}
    while place < end:
        header = bytes(view[place : place + _BLOCK])
        name, _, ending = header[:100].rstrip(b"\0").decode("ascii", "replace").partition(".")
        digits = header[124:135]
        if name != key or not digits.isdigit():
            raise DataError(f"it is not at byte {place}: the index is that of another tar, or one is damaged")
        size = int(digits, 8)
        found[ending] = view[place + _BLOCK : place + _BLOCK + size]
        place += _BLOCK + -(-size // _BLOCK) * _BLOCK
    return found


def frame_times(start_s: float, end_s: float, count: int) -> list[float]:
    """The middles of equal parts of a stretch, beginning with that nearest to its middle.

    >>> frame_times(0, 9, 3)
    [4.5, 1.5, 7.5]
    """
    step = (end_s - start_s) / count
    return sorted(
        (start_s + (number + 0.5) * step for number in range(count)),
        key=lambda time_s: (round(abs(time_s - (start_s + end_s) / 2), 6), time_s),
    )


def _windows(samples: int, record: np.void, frame: int) -> tuple[int, int]:
    """The first and the last sample at which 3 s may begin that include a frame; a photo goes with any of them."""
    last = samples - CLIP_SAMPLES
    if record["still"]:
        return 0, last
    times_s = frame_times(0.0, samples / SAMPLE_RATE_HZ, int(record["frames"]))
    time = round(times_s[frame % len(times_s)] * SAMPLE_RATE_HZ)
    return max(0, min(last, time - CLIP_SAMPLES)), max(0, min(last, time))
