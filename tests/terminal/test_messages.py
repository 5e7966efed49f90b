"""What is said in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from soundwhere.terminal.messages import announce, print_links, print_written

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_links_are_printed_for_here_and_for_elsewhere(capsys: pytest.CaptureFixture[str]) -> None:
    print_links(["http://127.0.0.1:1/", "http://10.0.0.2:1/"], "Ctrl-C stops", "0.0.0.0")
    assert capsys.readouterr().out == "http://127.0.0.1:1/  Ctrl-C stops\nhttp://10.0.0.2:1/  from other machines\n"
    print_links(["http://127.0.0.1:1/"], "Ctrl-C stops", "0.0.0.0")
    assert "no address that others could open" in capsys.readouterr().out
    print_links(["http://127.0.0.1:1/"], "Ctrl-C stops", "127.0.0.1")
    assert capsys.readouterr().out == "http://127.0.0.1:1/  Ctrl-C stops\n"


def test_a_page_is_announced_and_opened_if_wanted(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr("soundwhere.web.addresses.open_later", opened.append)
    announce("Ctrl-C stops", "127.0.0.1", browser=False)(["http://127.0.0.1:1/"])
    assert opened == []
    announce("Ctrl-C stops", "127.0.0.1", browser=True)(["http://127.0.0.1:1/"])
    assert opened == ["http://127.0.0.1:1/"]
    assert capsys.readouterr().out == "http://127.0.0.1:1/  Ctrl-C stops\n" * 2


def test_written_files_are_told_as_people_think_of_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "two\nlines"
    files = [folder / name for name in ("index.html", "maps/1.png", "maps/2.png", "overlay.mp4")]
    print_written(folder, files)
    words = "overlay.mp4 (with sound), index.html, maps/"
    assert capsys.readouterr().out == f"wrote {tmp_path}/two?lines/{words}\n"
