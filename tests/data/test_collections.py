from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from soundwhere.data.collections import COLLECTIONS, collection, draw_trios, is_left_out, pair_again
from soundwhere.data.real_duet import RealDuet
from soundwhere.errors import DataError

if TYPE_CHECKING:
    from pathlib import Path

KINDS = [*COLLECTIONS, "cat"]


def sound(kind: str, first: bool, number: int) -> str:
    name = COLLECTIONS.get(kind, ("esc50", "esc50"))[0 if first else 1]
    return f"audio/{kind}/{name}_{number}.ogg"


pairs = st.lists(st.tuples(st.sampled_from(KINDS), st.booleans(), st.integers(0, 3)), max_size=30)


@given(pairs, st.sampled_from(["first", "second"]))
def test_no_picture_is_lost_and_no_left_out_sound_is_kept(rows, fold) -> None:
    every = [(kind, first, 9) for kind in KINDS for first in (True, False)]  # each class has another sound
    clips = [(kind, f"{kind}/{i}.jpg", sound(kind, first, n)) for i, (kind, first, n) in enumerate([*rows, *every])]
    again = pair_again(clips, fold)
    assert [image for image, _ in again] == [image for _, image, _ in clips]
    for (kind, _, before), (_, after) in zip(clips, again, strict=True):
        assert not is_left_out(kind, after, fold)
        assert after.split("/")[1] == kind  # photos are paired within their class
        assert after == before or is_left_out(kind, before, fold)


def test_replacements_take_turns() -> None:
    clips = [("dog", f"{i}.jpg", sound("dog", False, i)) for i in range(6)]
    clips += [("dog", f"{i}.png", sound("dog", True, i)) for i in range(3)]
    used = Counter(audio for _, audio in pair_again(clips, "second"))
    assert set(used.values()) == {3}


def test_a_class_without_another_collection_is_refused() -> None:
    with pytest.raises(DataError, match="class dog") as caught:
        pair_again([("dog", "a.jpg", sound("dog", True, 0))], "first")
    assert "wide-duet" in caught.value.remedy


@pytest.mark.parametrize("fold", ["first", "second"])
def test_trios_sound_like_the_collection_left_out(fold) -> None:
    photos = {kind: [f"{kind}/{i}.jpg" for i in range(3)] for kind in KINDS}
    sounds = [(kind, sound(kind, first, i)) for kind in KINDS for first in (True, False) for i in range(4)]
    trios = draw_trios(photos, sounds, fold, 100)
    assert trios == draw_trios(photos, sounds, fold, 100)
    for images, kinds, audios in trios:
        assert len(set(kinds)) == 3
        assert not {"car", "motorbike"} <= set(kinds)
        assert [image.split("/")[0] for image in images] == kinds
        assert audios.count("") == 1
        for kind, audio in zip(kinds, audios, strict=True):
            assert not audio or is_left_out(kind, audio, fold)
    assert len({tuple(audio == "" for audio in audios) for _, _, audios in trios}) == 3  # the silent one is anywhere
    with pytest.raises(DataError, match="0 classes"):
        draw_trios({"cat": photos["cat"]}, sounds, fold, 1)


def test_the_real_lists(shared: Path) -> None:
    data = RealDuet(shared / "data" / "wide-duet")
    for fold, other in (("first", 1), ("second", 0)):
        clips = data.clips("train", labels=True, left_out=fold)
        assert len(clips) == 5070
        heard = {(kind, collection(clips[i].recording_key.split("|")[0])) for i, kind in enumerate(clips.kinds)}
        for kind, both in COLLECTIONS.items():
            assert {name for own, name in heard if own == kind} == {both[other]}
    scenes = data.collection_trios("second", "test")
    assert len(scenes) == 300
    assert scenes[0].masks.shape == (2, 224, 672)
    assert scenes.seen_kinds(0) >= set(scenes[0].kinds)
    assert len(data.videos("train")) == 53
    assert len(data.videos("val")) == 11
