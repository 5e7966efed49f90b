"""What a user reads, and how the command ends, where a list, a clip, a shard or a folder is not as it should be."""

from __future__ import annotations

import csv
import shutil
from typing import TYPE_CHECKING

import pytest

from soundwhere.cli.main import run
from soundwhere.files import lock
from soundwhere.preparation.shard import LOCKS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Read = Callable[..., tuple[int, str]]


@pytest.fixture
def told(capsys: pytest.CaptureFixture[str]) -> Read:
    """Run a command: its code, and all that it said."""

    def read(*arguments: str | Path) -> tuple[int, str]:
        capsys.readouterr()
        code = run([*map(str, arguments)])
        said = capsys.readouterr()
        return code, said.out + said.err

    return read


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory, make_video: Callable[..., Path]) -> Path:
    """Four videos, one without sound and one without a picture."""
    folder = tmp_path_factory.mktemp("shelf")
    for seed in range(4):
        make_video(folder / "good" / f"{seed}.mp4", seed, 2.0)
    make_video(folder / "mute.mp4", 1, 2.0, sound=False)
    make_video(folder / "blind.mp4", 1, 2.0, picture=False)
    return folder


@pytest.fixture(scope="module")
def made(shelf: Path) -> Path:
    assert run(["prepare", *map(str, flags(shelf, shelf / "made"))]) == 0
    return shelf / "made"


@pytest.fixture
def own(made: Path, tmp_path: Path) -> Path:
    return shutil.copytree(made, tmp_path / "own")


def flags(shelf: Path, out: Path) -> tuple[str | Path, ...]:
    return shelf / "good", "--out", out, "--clips-per-shard", "2", "--workers", "1"


def training(root: Path, out: Path) -> tuple[str | Path, ...]:
    small = "train --source shards --model scav-tiny --frame-px 32 --batch-size 4 --steps-one 2 --device cpu"
    return *small.split(), "--root", root, "--out", out


@pytest.mark.parametrize(
    ("text", "found", "next_step"),
    [
        ("file,begin\na.mp4,1\n", "has no column start, end, but: file, begin.", "A list is VGGSound's csv"),
        ("file,start,end\na.mp4,1,2\na.mp4,1,2\n", "a.mp4@1.000-2.000 appears twice in", "Remove one of the two"),
        ("x,1,dog,test\nx,1,dog,train\n", "x_000001 appears twice in", "Remove one of the two"),
        ("file,start,end\na.mp4,3,2\n", "line 2: a.mp4 from 3 to 2 s is not a stretch", "an end after its start"),
    ],
)
def test_a_list_that_cannot_be(tmp_path: Path, told: Read, text: str, found: str, next_step: str) -> None:
    table = tmp_path / "list.csv"
    table.write_text(text)
    code, said = told("prepare", table, "--out", tmp_path / "out")
    assert code == 2
    assert found in said
    assert next_step in said
    assert not (tmp_path / "out").exists()


def test_a_folder_without_clips(tmp_path: Path, told: Read) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "out").mkdir()
    code, said = told("prepare", tmp_path / "empty", "--out", tmp_path / "out")
    assert code == 2
    assert "holds no clip.\nGive a folder with videos, or with photos that have a sound file" in said
    assert not list((tmp_path / "out").iterdir())  # the reader's own folder stays


def test_clips_of_which_none_can_be_used(shelf: Path, tmp_path: Path, told: Read) -> None:
    table = tmp_path / "list.csv"
    table.write_text("file,start,end\nmute.mp4,0,2\nblind.mp4,0,2\ngood/0.mp4,1,9\n")
    out = tmp_path / "out"
    code, said = told("prepare", table, "--roots", shelf, "--out", out, "--workers", "1")
    assert code == 1
    assert f"clips that cannot be used: {out / 'problems.csv'}, such as" in said
    assert "failed: none of the 3 clips can be used" in said
    with (out / "problems.csv").open(newline="") as file:
        reasons = [row["reason"] for row in csv.DictReader(file)]
    wanted = ("mute.mp4 has a picture but no sound track", "blind.mp4 has no picture", "so 1 to 9 s is outside of it")
    assert all(words in reason for words, reason in zip(wanted, reasons, strict=True)), reasons
    code, said = told(*training(out, tmp_path / "run"))
    assert code == 2
    assert f"{out} holds no clip: all of them have problems.\nLook into its problems.csv." in said


def test_a_truncated_tar(own: Path, tmp_path: Path, told: Read) -> None:
    tar = own / "shard-000001.tar"
    whole = tar.stat().st_size
    tar.write_bytes(tar.read_bytes()[:3000])
    code, said = told(*training(own, tmp_path / "run"))
    assert code == 2
    assert f"soundwhere: {tar} has 3000 bytes instead of {whole}: it is cut short, or another tar.\nRun `sound" in said
    code, said = told("prepare", "verify", own, "--workers", "1")
    assert code == 2
    assert f"shard-000001.tar: 3000 bytes instead of {whole}\n" in said
    assert "shard-000001.tar: clip 000000002: it ends at byte" in said


def test_the_index_of_another_tar(own: Path, tmp_path: Path, told: Read) -> None:
    shutil.copy(own / "shard-000000.tar", own / "shard-000001.tar")
    words = "it is not at byte 0: the index is that of another tar, or one is damaged"
    code, said = told("prepare", "verify", own, "--workers", "1")
    assert code == 2
    assert f"shard-000001.tar: clip 000000002: {words}\n" in said
    (own / "shard-000001.index").write_bytes((own / "shard-000000.index").read_bytes())
    code, said = told("prepare", "verify", own, "--workers", "1")
    assert code == 2
    assert "index.bin: it is not the index of these shards" in said


def test_shards_made_with_other_options(shelf: Path, made: Path, told: Read) -> None:
    code, said = told("prepare", *flags(shelf, made), "--quality", "50")
    assert code == 2
    assert f"{made} holds shards made with other options: --quality 90 (now 50).\nGive the same options" in said
    code, said = told("prepare", shelf, *flags(shelf, made))
    assert code == 2
    assert f"{made} holds shards of another list" in said


def test_another_run_in_the_same_folder(shelf: Path, tmp_path: Path, told: Read) -> None:
    with lock(tmp_path / LOCKS / "000001"):
        code, said = told("prepare", *flags(shelf, tmp_path))
    assert code == 0
    assert "1 shards are being made by another run." in said
    assert f"the set is not complete yet: {tmp_path}" in said
    code, said = told("prepare", *flags(shelf, tmp_path))
    assert code == 0
    assert f"the set is complete: {tmp_path}" in said
