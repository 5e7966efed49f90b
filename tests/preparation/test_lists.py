"""Lists as people have them become the same kind of entry; what cannot be is refused with its line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from soundwhere.errors import DataError, MediaError
from soundwhere.preparation.lists import Listing

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def test_a_folder_gives_its_videos_in_order_and_cuts_long_ones(videos: Path) -> None:
    entries = list(Listing([videos]).entries())
    assert [entry.name for entry in entries] == [
        "bad.mp4",
        *("long.mp4@0.000-10.500", "long.mp4@10.500-21.000"),
        *(f"0/clip{seed:02d}.mp4" for seed in (0, 3, 6, 9)),
        *(f"1/clip{seed:02d}.mp4" for seed in (1, 4, 7, 10)),
        *(f"2/clip{seed:02d}.mp4" for seed in (2, 5, 8)),
    ]
    assert entries[0].end_s is None  # nothing can be found out; it is told when its turn comes
    assert [(entry.start_s, entry.end_s) for entry in entries[1:3]] == [(0, 10.5), (10.5, 21)]


def test_photos_go_with_the_sound_beside_them(tmp_path: Path) -> None:
    (tmp_path / "a.soundwhere").mkdir()
    for name in ("a.jpg", "a.wav", "b.png", ".hidden.jpg", "a.soundwhere/overlay.mp4"):
        (tmp_path / name).touch()
    found = [(entry.file, entry.sound) for entry in Listing([tmp_path]).entries()]
    assert found == [("a.jpg", "a.wav"), ("b.png", "?")]


@pytest.mark.parametrize("header", ["", "id,start,label,split\n"])
def test_vggsounds_list_with_and_without_a_header(tmp_path: Path, header: str) -> None:
    table = tmp_path / "vggsound.csv"
    table.write_text(f'{header}---g-f_I2yQ,1,people marching,test\nAbC,30,"bird chirping, tweeting",train\n')
    (tmp_path / "videos").mkdir()
    listing = Listing([table], [tmp_path / "videos"])
    first, second = listing.entries()
    assert (first.name, first.start_s, first.end_s, first.label) == ("---g-f_I2yQ_000001", 1, 11, "people marching")
    assert (second.name, second.label, second.split) == ("AbC_000030", "bird chirping, tweeting", "train")
    assert [entry.name for entry in Listing([table], split="train").entries()] == ["AbC_000030"]
    with pytest.raises(MediaError, match="AbC_000030 or AbC is not in"):
        listing.find(second)
    (tmp_path / "videos" / "AbC.mkv").touch()
    assert listing.find(second) == (tmp_path / "videos" / "AbC.mkv", False)
    (tmp_path / "videos" / "AbC_000030.mp4").touch()  # the clip alone
    assert listing.find(second) == (tmp_path / "videos" / "AbC_000030.mp4", True)


def test_a_table_of_files_and_times_over_several_roots(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    (tmp_path / "two" / "b.mp4").touch()
    table = tmp_path / "list.csv"
    table.write_text("label,file,end,start\ndog,a.mp4,5,2.5\ncat,b.mp4,9,0\n")
    listing = Listing([table], [tmp_path / "one", tmp_path / "two"])
    first, second = listing.entries()
    assert (first.name, first.start_s, first.end_s, first.label) == ("a.mp4@2.500-5.000", 2.5, 5, "dog")
    assert listing.find(second) == (tmp_path / "two" / "b.mp4", False)


def test_musics_lists(tmp_path: Path, make_video: Callable[..., Path]) -> None:
    table = tmp_path / "MUSIC_solo_videos.json"
    table.write_text(json.dumps({"version": 1.0, "videos": {"flute": ["f1", "gone"], "tuba": ["t1"]}}))
    make_video(tmp_path / "f1.mp4", 1, 20.0)
    make_video(tmp_path / "t1.mp4", 2, 4.0)
    found = [(entry.name, entry.label, entry.end_s) for entry in Listing([table]).entries()]
    assert found == [
        ("f1@0.000-10.000", "flute", 10.0),
        ("f1@10.000-20.000", "flute", 20.0),
        ("gone", "flute", None),
        ("t1", "tuba", 4.0),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("file,begin\na.mp4,1\n", "has no column start, end, but: file, begin"),
        ("id,start\na,1\n", "has no column label, split"),
        ("file,start,end\na.mp4,1,2\na.mp4,1,2\n", r"a.mp4@1.000-2.000 appears twice"),
        ("x,1,dog,test\nx,1,dog,train\n", "x_000001 appears twice"),
        ("file,start,end\na.mp4,3,2\n", "line 2: a.mp4 from 3 to 2 s is not a stretch"),
        ("file,start,end\na.mp4,-1,2\n", "line 2: '-1' is not a time"),
        ("file,start,end\na.mp4,nan,2\n", "'nan' is not a time"),
        ("file,start,end\na.mp4,1\n", "line 2: 2 cells, not 3"),
        ("file,start,end\n", "holds no clip"),
        ("", "is empty"),
    ],
)
def test_a_list_that_cannot_be_is_refused(tmp_path: Path, text: str, message: str) -> None:
    table = tmp_path / "list.csv"
    table.write_text(text)
    with pytest.raises(DataError, match=message):
        list(Listing([table]).entries())


@pytest.mark.parametrize("content", ["[]", '{"videos": []}', '{"videos": {"flute": "f1"}}', "{"])
def test_json_that_is_not_musics_is_refused(tmp_path: Path, content: str) -> None:
    table = tmp_path / "list.json"
    table.write_text(content)
    with pytest.raises(DataError):
        list(Listing([table]).entries())


def test_sources_that_are_not_there_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="does not exist"):
        Listing([tmp_path / "gone"])
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match="is not a folder"):
        Listing([tmp_path], [tmp_path / "file"])


def test_the_same_name_in_two_folders_is_refused(tmp_path: Path, make_video: Callable[..., Path]) -> None:
    for folder in ("one", "two"):
        make_video(tmp_path / folder / "a.mp4", 1, 1.0)
    with pytest.raises(DataError, match="mp4 appears twice"):
        list(Listing([tmp_path / "one", tmp_path / "two"]).entries())


def test_a_listing_knows_when_it_changed(tmp_path: Path) -> None:
    (tmp_path / "a.mp4").write_bytes(b"1")
    before = Listing([tmp_path]).fingerprint()
    assert Listing([tmp_path]).fingerprint() == before
    (tmp_path / "notes.txt").touch()
    assert Listing([tmp_path]).fingerprint() == before
    (tmp_path / "a.mp4").write_bytes(b"12")
    assert Listing([tmp_path]).fingerprint() != before
