"""Outputs appear whole or not at all."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from soundwhere import files
from soundwhere.errors import OutputError
from soundwhere.files import (
    atomic_folder,
    atomic_path,
    bring_back,
    is_file,
    is_whole,
    make_folder,
    output_error,
    parse_json,
    remove_partial,
    write_json,
    write_text,
)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*"))


def test_a_file_appears_when_the_block_is_done(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "er" / "out.png"
    with atomic_path(path) as temporary:
        temporary.write_bytes(b"new")
        assert temporary.suffix == ".png"  # so that libraries know the format
        assert temporary.parent == path.parent  # so that renaming is atomic
        assert not path.exists()
    assert path.read_bytes() == b"new"
    assert names(path.parent) == ["out.png"]


def test_a_folder_appears_when_the_block_is_done(tmp_path: Path) -> None:
    with atomic_path(tmp_path / "out") as temporary:
        temporary.mkdir()
        (temporary / "a").touch()
    assert names(tmp_path) == ["a", "out"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("kind", ["file", "folder", "nothing"])
def test_an_interruption_leaves_what_was_there(tmp_path: Path, error: type[BaseException], kind: str) -> None:
    path = tmp_path / "out.txt"
    path.write_text("old")
    with pytest.raises(error), atomic_path(path) as temporary:  # noqa: PT012
        if kind == "file":
            temporary.write_text("half")
        elif kind == "folder":
            temporary.mkdir()
            (temporary / "a").touch()
        raise error
    assert path.read_text() == "old"
    assert names(tmp_path) == ["out.txt"]


def test_a_second_interruption_while_clearing_away_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[Path] = []

    def interrupted(path: Path, ignore_errors: bool) -> None:
        calls.append(path)
        if len(calls) == 1:
            raise KeyboardInterrupt
        rmtree(path, ignore_errors)

    rmtree = shutil.rmtree
    monkeypatch.setattr(shutil, "rmtree", interrupted)
    with pytest.raises(KeyboardInterrupt), atomic_folder(tmp_path / "out") as temporary:  # noqa: PT012
        (temporary / "a").touch()
        raise KeyboardInterrupt
    assert names(tmp_path) == []


@pytest.mark.parametrize(
    ("number", "remedy"),
    [
        (errno.ENOSPC, "Free some space"),
        (errno.EDQUOT, "quota"),
        (errno.EACCES, "may write to"),
        (errno.EEXIST, "A file has that name"),
        (errno.EROFS, "read-only"),
        (errno.ENAMETOOLONG, "shorter"),
        (errno.EIO, "Choose another"),
    ],
)
def test_the_operating_systems_errors_say_what_to_do(tmp_path: Path, number: int, remedy: str) -> None:
    with pytest.raises(OutputError, match=f"out.txt cannot be written: {os.strerror(number)}") as caught:  # noqa: PT012, SIM117
        with atomic_path(tmp_path / "out.txt") as temporary:
            temporary.write_text("half")
            raise OSError(number, os.strerror(number))
    assert remedy in caught.value.remedy
    assert names(tmp_path) == []


@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="needs the device that is always full")
def test_a_disk_that_is_really_full(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="No space left") as caught, atomic_path(tmp_path / "out") as temporary:  # noqa: PT012
        temporary.symlink_to("/dev/full")
        temporary.write_text("more than fits")
    assert "Free some space" in caught.value.remedy
    assert names(tmp_path) == []
    assert Path("/dev/full").is_char_device()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(OutputError, match="Permission denied"):
        write_text(tmp_path / "out.txt", "x")
    with pytest.raises(OutputError, match="Permission denied"):
        make_folder(tmp_path / "new")


def test_what_is_no_file_is_not_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OutputError, match="is not a file that could be replaced"):
        write_text(tmp_path / "pipe", "x")
    assert (tmp_path / "pipe").is_fifo()
    assert names(tmp_path) == ["pipe"]


def test_errors_about_other_files_are_not_about_the_output(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    path = tmp_path / "out" / "out.txt"
    with pytest.raises(FileNotFoundError, match=r"input\.txt"), atomic_path(path) as temporary:
        temporary.write_text((tmp_path / "input.txt").read_text())
    with pytest.raises(BrokenPipeError), atomic_path(path):
        raise BrokenPipeError(errno.EPIPE, "whoever listened is gone")
    with pytest.raises(OSError, match="truncated"), atomic_path(path):
        raise OSError("image file is truncated")  # what Pillow says of a picture that it reads
    assert names(tmp_path / "out") == []


def test_errors_within_a_folder_are_about_the_output(tmp_path: Path) -> None:
    with (
        pytest.raises(OutputError, match="out cannot be written: No such file"),
        atomic_path(tmp_path / "out") as folder,
    ):
        (folder / "deep" / "file").touch()
    (tmp_path / "input").touch()
    with (
        pytest.raises(OutputError, match="out cannot be written: No such file"),
        atomic_path(tmp_path / "out") as folder,
    ):
        shutil.copy(tmp_path / "input", folder / "deep" / "copy")
    with pytest.raises(OutputError, match="cannot be written: encoder error"), atomic_path(tmp_path / "out"):
        raise OSError("encoder error -2 when writing image file")  # what Pillow says of a full disk


KILLED = """
import os, sys
from pathlib import Path
from soundwhere import files

steps = int(sys.argv[2])  # this many renames, then the process is killed

def last_step():
    global steps
    steps -= 1
    if steps == 0:
        os._exit(9)

exchange, replace = files._exchange, Path.replace

def exchange_and_die(one, other):
    done = sys.argv[3] == "at once" and exchange(one, other)
    if done:
        last_step()
    return done

def replace_and_die(self, target):
    replace(self, target)
    last_step()

files._exchange, Path.replace = exchange_and_die, replace_and_die
with files.atomic_folder(Path(sys.argv[1])) as temporary:
    for name in ("a", "b"):
        (temporary / name).write_text("new")
"""


@pytest.mark.parametrize(("how", "most"), [("at once", 1), ("in two steps", 3)])
def test_a_folder_is_replaced_at_once_however_the_process_ends(tmp_path: Path, how: str, most: int) -> None:
    folder, seen = tmp_path / "out", []
    for steps in range(1, most + 2):
        for name in ("a", "b"):
            folder.mkdir(exist_ok=True)
            (folder / name).write_text("old")
        command = [sys.executable, "-c", KILLED, str(folder), str(steps), how]
        code = subprocess.run(command, check=False).returncode
        assert code == (9 if steps <= most else 0)
        if how == "in two steps":
            bring_back(folder)
        seen.append([(folder / name).read_text() for name in ("a", "b")])
    assert all(one == other for one, other in seen)
    assert seen[-1] == ["new", "new"]
    assert seen[0] == (["new", "new"] if how == "at once" else ["old", "old"])


def test_a_folder_that_could_not_be_written_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "a").write_text("old")
    with pytest.raises(ZeroDivisionError), atomic_folder(tmp_path / "out") as temporary:  # noqa: PT012
        (temporary / "a").write_text("new")
        raise ZeroDivisionError
    monkeypatch.setattr(files, "_exchange", lambda *_: False)
    replace = Path.replace

    def refuse(self: Path, target: Path) -> Path:
        if ".partial" in self.name:
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(self))
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(OutputError, match="Input/output error"), atomic_folder(tmp_path / "out") as temporary:
        (temporary / "a").write_text("new")
    assert (tmp_path / "out" / "a").read_text() == "old"
    assert names(tmp_path) == ["a", "out"]


def test_a_link_to_a_folder_is_replaced_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "a").write_text("old")
    (tmp_path / "out").symlink_to(tmp_path / "real")
    with atomic_folder(tmp_path / "out") as temporary:
        (temporary / "b").write_text("new")
    assert (tmp_path / "real" / "a").read_text() == "old"
    assert names(tmp_path) == ["a", "b", "out", "real"]


def test_a_file_in_the_way_of_a_folder_and_a_folder_in_the_way_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "file" / "out.txt", tmp_path / "file" / "deep" / "out.txt"):
        with pytest.raises(OutputError, match="cannot be written"):
            write_text(path, "x")
    (tmp_path / "folder").mkdir()
    with pytest.raises(OutputError, match="folder cannot be written") as caught:
        write_text(tmp_path / "folder", "x")
    assert "--out" in caught.value.remedy
    assert names(tmp_path) == ["file", "folder"]


def test_an_error_without_a_number_is_still_told() -> None:
    assert "cannot be written: odd" in output_error(Path("out"), OSError("odd")).message


def test_what_a_killed_process_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    left = atomic_path(tmp_path / "out.txt")
    left.__enter__().write_text("half")  # and the process is gone
    (tmp_path / ".hidden").touch()
    (tmp_path / "a.partial.txt").touch()
    remove_partial(tmp_path)
    assert names(tmp_path) == [".hidden", "a.partial.txt"]


def test_json_is_readable_and_refuses_what_json_has_not(tmp_path: Path) -> None:
    write_json(tmp_path / "out.json", {"name": "Glöckchen", "values": [1, 2.5]})
    text = (tmp_path / "out.json").read_text(encoding="utf-8")
    assert "Glöckchen" in text
    assert text.endswith("}\n")
    assert json.loads(text) == {"name": "Glöckchen", "values": [1, 2.5]}
    with pytest.raises(ValueError, match="JSON"):
        write_json(tmp_path / "out.json", {"value": float("nan")})
    assert (tmp_path / "out.json").read_text(encoding="utf-8") == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1, NaN]", "NaN is not a finite number"),
        ("[-Infinity]", "-Infinity is not a finite number"),
        ("[1e400]", "1e400 is not a finite number"),
        ("9" * 400, r"the number 99999999999999999999\.\.\. is too large"),
        ("9" * 9999, "is too large"),
        (str(2**64), "is too large"),
        (str(-(2**63) - 1), "is too large"),
        ("[" * 100_000, "nested too deeply"),
        ('{"a": {"b": 1, "c": 2, "b": 3}}', "the key 'b' appears twice"),
        (r'["\ud83d"]', "half of a surrogate pair"),
        (r'["\ude00\ud83d"]', "half of a surrogate pair"),
        ("[1,]", "line 1 column 4"),
        (b"\xff\xfe", "utf-8"),
    ],
)
def test_json_that_would_surprise_later_is_refused(text: str | bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_json(text)


def test_json_is_read_as_python_reads_it() -> None:
    text = r'{"a": [1, -2.5, 1e300, null, true, "\ud83d\ude00"], "b": [18446744073709551615, -9223372036854775808]}'
    assert parse_json(text) == parse_json(text.encode()) == json.loads(text)
    assert parse_json("\ufeff[]".encode()) == []  # as some editors save it


def test_names_that_no_file_can_have(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    assert is_file(tmp_path / "a")
    assert not any(is_file(tmp_path / name) for name in ("x" * 300, "a\0b", "\ud800", "b", "."))


def test_whole_numbers() -> None:
    assert is_whole(0, 0)
    assert not any(is_whole(value, 0, 10) for value in (-1, 10, 1.0, True, None, "1", [1]))
