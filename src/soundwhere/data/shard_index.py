"""Where each clip lies in tar shards: as many bytes for every clip, mapped, so that all sets open equally fast.

A prepared set is a folder:

    manifest.json      the recipe, the classes, the shards with their sizes and hashes
    index.bin          a record for every clip of the set, in the order of the list; written when every shard is there
    clips.csv          the list, as it was cut into shards
    problems.csv       clips that could not be used, with the reason
    shard-000000.tar   clips in the WebDataset layout; a key is the clip's number in the list
    shard-000000.index the records of that tar, its hash, and its problems

Both kinds of index are eight letters, the length of a header, the header as JSON, and the records.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from soundwhere.errors import DataError
from soundwhere.files import parse_json, write_durably

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    Records = NDArray[np.void]  # of `RECORD`

MANIFEST, INDEX, CLIPS, PROBLEMS = "manifest.json", "index.bin", "clips.csv", "problems.csv"
FORMAT: Final = 1
NO_KIND: Final = 0xFFFF

RECORD: Final = np.dtype(
    [
        ("number", "<u4"),  # the clip's place in the list, and its key in the tar
        ("shard", "<u4"),
        ("offset", "<u8"),  # of its first tar header
        ("size", "<u4"),  # up to the next clip's, in bytes
        ("frames", "<u2"),
        ("kind", "<u2"),  # number of its class, if it has one
        ("samples", "<u4"),  # of its sound, at 22 050 Hz
        ("still", "?"),  # whether it is a photo beside a recording, any part of which belongs to it
        ("spare", "u1", (3,)),
        ("picture", "<u8", (2,)),  # hash of the first frame
    ]
)

_MAGIC: Final = b"SWINDEX1"
_ALIGN: Final = 64
_REMEDY: Final = "Copy it again, or run `soundwhere prepare` again: finished shards are kept."


def shard_name(number: int) -> str:
    """The name of a tar shard.

    >>> shard_name(12)
    'shard-000012.tar'
    """
    return f"shard-{number:06d}.tar"


def clip_key(number: int) -> str:
    """The key of a clip in its tar: what its files are called up to the first dot."""
    return f"{number:09d}"


def write_index(path: Path, header: dict[str, Any], records: Records) -> None:
    """Write an index so that it is there whole, or not at all, whatever happens."""
    raw = np.ascontiguousarray(records, RECORD).tobytes()
    header = {**header, "records": len(records), "records_sha256": hashlib.sha256(raw).hexdigest()}
    text = json.dumps(header, sort_keys=True, ensure_ascii=False).encode()
    text += b" " * (-(len(_MAGIC) + 8 + len(text)) % _ALIGN)
    write_durably(path, _MAGIC + len(text).to_bytes(8, "little") + text + raw)


def read_index(path: Path) -> tuple[dict[str, Any], Records]:
    """The header and the records of an index, which are mapped and not read.

    Raises:
        DataError: It is missing, cut short, or not an index.
    """
    try:
        with path.open("rb") as file:
            begin = file.read(len(_MAGIC) + 8)
            size = int.from_bytes(begin[len(_MAGIC) :], "little")
            total = file.seek(0, 2)
            if begin[: len(_MAGIC)] != _MAGIC or size > total:
                raise ValueError("it does not begin like one")
            file.seek(len(begin))
            header = parse_json(file.read(size))
            count, start = int(header["records"]), len(begin) + size
            if total != start + count * RECORD.itemsize:
                raise ValueError(f"it has {total} bytes instead of {start + count * RECORD.itemsize}")
        records = np.memmap(path, RECORD, "r", start, count) if count else np.empty(0, RECORD)
    except FileNotFoundError as error:
        raise DataError(f"{path} does not exist.", _REMEDY) from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path} is not an index of shards: {error}.", _REMEDY) from error
    return header, records


def records_agree(header: dict[str, Any], records: Records) -> bool:
    """Whether records are those that were written with a header."""
    return bool(hashlib.sha256(np.asarray(records).tobytes()).hexdigest() == header.get("records_sha256"))


def read_manifest(path: Path, folder: str) -> dict[str, Any]:
    """The manifest of a set.

    Args:
        path: The file.
        folder: What to call the set in errors.

    Raises:
        DataError: There is none, or it is damaged or of a later format.
    """
    try:
        manifest = parse_json(path.read_bytes())
        version = manifest["format"]
        for name, kind in (("recipe", dict), ("clips", int), ("shards", int), ("clips_per_shard", int)):
            if not isinstance(manifest[name], kind):
                raise ValueError(f"`{name}` is {manifest[name]!r}")
    except (FileNotFoundError, NotADirectoryError) as error:
        raise DataError(
            f"{folder} holds no {MANIFEST}, so it is not a set of shards.",
            "Make one with `soundwhere prepare`, and give its folder.",
        ) from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path} is damaged: {error}.", _REMEDY) from error
    if version != FORMAT:
        raise DataError(f"{path} is of format {version}; this version reads {FORMAT}.", "Install the newest version.")
    return dict(manifest)
