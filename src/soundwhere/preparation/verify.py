"""Check a set of shards: its hashes, its indexes, and that every picture and every sound decodes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from soundwhere.data.shard_index import (
    CLIPS,
    INDEX,
    MANIFEST,
    clip_key,
    read_index,
    records_agree,
    shard_name,
)
from soundwhere.data.shards import members_of
from soundwhere.errors import DataError, MediaError
from soundwhere.files import parse_json, sha256
from soundwhere.inference.pool import Died, work_on
from soundwhere.media.encoded import decode_jpeg, decode_sound
from soundwhere.preparation.plan import read_plan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from soundwhere.inference.pool import Engine, Tell


@dataclass(frozen=True)
class Finding:
    """Something that is wrong with a file."""

    file: str
    what: str


@dataclass(frozen=True)
class Verified:
    """What was found: how many shards and clips were looked at, and what is wrong."""

    shards: int
    clips: int
    findings: tuple[Finding, ...]


def verify(
    folder: Path,
    *,
    engine: Engine = "local",
    workers: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Verified:
    """Check everything.

    Args:
        folder: A set of shards, complete or not.
        engine: Who does the work.
        workers: How many shards are read at once.
        progress: Called with the shards done and all there are.

    Raises:
        DataError: It is not a set of shards.
    """
    plan = read_plan(folder)
    findings = [Finding(CLIPS, "it is not the list that was cut")] * (
        sha256(folder / CLIPS) != plan.manifest["clips_sha256"]
    )
    clips = 0
    todo = list(range(plan.shards))
    make = partial(_checker, folder, plan.manifest["recipe"])
    for number, (shard, answer) in enumerate(work_on(engine, todo, make, workers), 1):
        if isinstance(answer, Died):
            findings.append(Finding(shard_name(shard), f"reading it ended the process with {answer.code}"))
        else:
            clips += answer[0]
            findings += answer[1]
        if progress is not None:
            progress(number, len(todo))
    findings += _check_whole(folder, plan.shards)
    return Verified(plan.shards, clips, tuple(sorted(findings, key=lambda finding: (finding.file, finding.what))))


def _checker(folder: Path, recipe: dict[str, Any], _: Tell) -> Callable[[int], tuple[int, list[Finding]]]:
    return partial(_check, folder, recipe)


def _check(folder: Path, recipe: dict[str, Any], shard: int) -> tuple[int, list[Finding]]:
    """Check one shard; how many of its clips are whole, and what is wrong."""
    tar = folder / shard_name(shard)
    index = tar.with_suffix(".index")
    try:
        header, records = read_index(index)
    except DataError as error:
        missing = not index.exists()
        return 0, [Finding(index.name, "it is missing: the shard is not finished" if missing else error.message)]
    found = []
    if not tar.is_file():
        return 0, [Finding(tar.name, "it is missing")]
    if not records_agree(header, records):
        found.append(Finding(index.name, "its records are not those that were written"))
    if header.get("recipe") != recipe:
        found.append(Finding(index.name, "it was made with other options than the set"))
    if tar.stat().st_size != header.get("tar_bytes"):
        found.append(Finding(tar.name, f"{tar.stat().st_size} bytes instead of {header.get('tar_bytes')}"))
    elif sha256(tar) != header.get("tar_sha256"):
        found.append(Finding(tar.name, "its content is not what was written, or the index is that of another tar"))
    whole = 0
    content = np.memmap(tar, np.uint8, "r") if tar.stat().st_size else np.zeros(0, np.uint8)
    for record in records:
        try:
            _decode(content, record)
            whole += 1
        except (DataError, MediaError, ValueError, OSError) as error:
            found.append(
                Finding(tar.name, f"clip {clip_key(int(record['number']))}: {getattr(error, 'message', error)}")
            )
    return whole, found


def _decode(content: Any, record: Any) -> None:
    """Decode everything of a clip."""
    members = members_of(content, record)
    frames = [name for name in members if name.endswith(".jpg")]
    if len(frames) != int(record["frames"]):
        raise DataError(f"it has {len(frames)} frames instead of {record['frames']}")
    for name in frames:
        decode_jpeg(members[name])
    sound = next((members[name] for name in ("flac", "opus") if name in members), None)
    if sound is None or "json" not in members:
        raise DataError("it has no sound or no facts")
    if abs(len(decode_sound(sound)) - int(record["samples"])) > 2:
        raise DataError("its sound is of another length")
    parse_json(bytes(members["json"]))


def _check_whole(folder: Path, shards: int) -> Iterator[Finding]:
    """Compare the index of the set with those of its shards, if it is there."""
    if not (folder / INDEX).exists():
        yield Finding(MANIFEST, f"the set is not complete: it has no {INDEX}")
        return
    try:
        header, records = read_index(folder / INDEX)
        parts = [read_index((folder / shard_name(shard)).with_suffix(".index")) for shard in range(shards)]
    except DataError as error:
        yield Finding(INDEX, error.message)
        return
    if not records_agree(header, records) or not np.array_equal(records, np.concatenate([part for _, part in parts])):
        yield Finding(INDEX, "it is not the index of these shards")
    elif [shard["tar_sha256"] for shard in header["shards"]] != [part["tar_sha256"] for part, _ in parts]:
        yield Finding(INDEX, "it names other hashes than the shards' own indexes")
