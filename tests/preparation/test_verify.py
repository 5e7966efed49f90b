"""Verifying finds what is wrong with a set, and names the file."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from soundwhere.data.shard_index import read_index, write_index
from soundwhere.errors import DataError
from soundwhere.preparation.lists import Listing
from soundwhere.preparation.prepare import prepare
from soundwhere.preparation.recipe import Recipe
from soundwhere.preparation.verify import verify

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, videos: Path) -> Path:
    folder = tmp_path_factory.mktemp("made")
    prepare(folder, Listing([videos]), Recipe(short_px=32), clips_per_shard=7, workers=1)
    return folder


@pytest.fixture
def own(made: Path, tmp_path: Path) -> Path:
    return shutil.copytree(made, tmp_path / "own")


def found(folder: Path) -> dict[str, str]:
    from soundwhere.preparation import verify as module

    result = [module._check(folder, module.read_plan(folder).manifest["recipe"], shard)[1] for shard in range(2)]
    findings = [*result[0], *result[1], *module._check_whole(folder, 2)]
    return {finding.file: finding.what for finding in findings}


def test_a_good_set_has_no_findings(made: Path) -> None:
    result = verify(made, workers=1)
    assert (result.shards, result.clips, result.findings) == (2, 13, ())


def test_a_truncated_tar_is_found(own: Path) -> None:
    tar = own / "shard-000001.tar"
    tar.write_bytes(tar.read_bytes()[:30_000])
    assert "clip" in found(own)["shard-000001.tar"] or "bytes instead of" in found(own)["shard-000001.tar"]


def test_changed_bytes_are_found(own: Path) -> None:
    tar = own / "shard-000000.tar"
    content = bytearray(tar.read_bytes())
    content[-11_000] ^= 1
    tar.write_bytes(content)
    assert "its content is not what was written" in " ".join(found(own).values())


def test_the_index_of_another_tar_is_found(own: Path) -> None:
    shutil.copy(own / "shard-000000.index", own / "shard-000001.index")
    words = " ".join(found(own).values())
    assert "not at byte" in words or "cut short" in words
    assert "it is not the index of these shards" in words


def test_records_that_were_changed_are_found(own: Path) -> None:
    header, records = read_index(own / "shard-000000.index")
    raw = (own / "shard-000000.index").read_bytes()
    (own / "shard-000000.index").write_bytes(raw[:-1] + bytes([raw[-1] ^ 1]))
    assert "records are not those" in found(own)["shard-000000.index"]
    other = np.array(records)
    other["frames"] += 1
    write_index(own / "shard-000000.index", header, other)
    assert "3 frames instead of 4" in found(own)["shard-000000.tar"]


def test_other_options_and_missing_parts_are_found(own: Path) -> None:
    header, records = read_index(own / "shard-000000.index")
    recipe: dict[str, Any] = header["recipe"] | {"quality": 10}
    write_index(own / "shard-000000.index", header | {"recipe": recipe}, np.asarray(records))
    (own / "shard-000001.index").unlink()
    (own / "index.bin").unlink()
    words = found(own)
    assert "other options" in words["shard-000000.index"]
    assert "not finished" in words["shard-000001.index"]
    assert "not complete" in words["manifest.json"]


def test_the_command_exits_with_2(own: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from soundwhere.cli.main import run

    (own / "shard-000001.tar").unlink()
    assert run(["prepare", "verify", str(own), "--workers", "1"]) == 2
    assert "shard-000001.tar: it is missing" in capsys.readouterr().out
    assert run(["prepare", "verify", str(own.parent)]) == 2


def test_a_folder_without_a_manifest_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="not a set of shards"):
        verify(tmp_path)
