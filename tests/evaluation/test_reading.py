"""Every scene is read once and every picture seen once, whatever scenes need of each other; memory stays flat."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from soundwhere.data.controls import absent_partners, nothing_for, partner
from soundwhere.data.features import Eye
from soundwhere.evaluation.network_answerer import NetworkAnswerer
from soundwhere.evaluation.reading import KEPT, Reader, View, views
from soundwhere.evaluation.rows import Row
from soundwhere.evaluation.scoring import evaluate
from soundwhere.metrics.presets import PRESETS
from soundwhere.types import Scene

if TYPE_CHECKING:
    from soundwhere.methods.scav.model import SCAV


class Counted(Sequence[Scene]):
    """Scenes that note how often each is read; each shows and sounds its number."""

    def __init__(self, count: int, kinds: Sequence[str] = "abcdefghijklm", sources: Sequence[int] = (2,)) -> None:
        self.reads: Counter[int] = Counter()
        self._count, self._kinds, self._sources = count, kinds, sources

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, number: Any) -> Any:
        self.reads[number] += 1
        sources = self._sources[number % len(self._sources)]
        masks = np.zeros((sources, 64, 128), np.bool_)
        masks[:, 8:24, 8:24] = True
        sounds = np.random.default_rng(number).normal(0, 0.1, (sources, 4410)).astype(np.float32)
        return Scene(f"s{number}", np.full((64, 128, 3), number % 251, np.uint8), sounds, masks, ("a",) * sources)

    def seen_kinds(self, number: int) -> frozenset[str]:
        drawn = np.random.default_rng(number).choice(len(self._kinds), 2)
        return frozenset(self._kinds[place] for place in drawn)


@pytest.mark.parametrize("count", [2, 3, 16, 33, 100, 301])
@pytest.mark.parametrize("batch", [1, 7, 16])
def test_every_scene_is_read_once(count: int, batch: int) -> None:
    """With partners half the list away and strangers anywhere, as there are among 13 classes."""
    scenes = Counted(count)
    looked_at: list[int] = []
    absent = absent_partners([scenes.seen_kinds(number) for number in range(count)])
    for view in views(scenes, ("own", "shuffled", "blind", "absent"), batch=batch):
        looked_at += view.numbers
        assert view.partners == [partner(number, count) for number in view.numbers]
        assert view.absent == [absent[number] for number in view.numbers]
        for number in (*view.partners, *(other for other in view.absent if other is not None)):
            assert view.reader[number].scene.name == f"s{number}"
    assert sorted(looked_at) == list(range(count))
    assert scenes.reads == dict.fromkeys(range(count), 1)


@given(st.lists(st.sets(st.integers(0, 40), min_size=1, max_size=6), min_size=1, max_size=40))
def test_memory_is_bounded_whatever_is_needed(needed: list[set[int]]) -> None:
    scenes, most = Counted(41), 5
    reader = Reader(scenes, needed, most)
    for numbers in needed:
        for number in sorted(numbers):
            assert reader[number].scene.name == f"s{number}"
        reader.end_step()
        assert len(reader._memory) <= most
    waiting = [sum(n in later for later in needed[step + 1 :]) > 0 for step, now in enumerate(needed) for n in now]
    if sum(waiting) <= most:  # there was always room
        assert set(scenes.reads.values()) <= {1}


def test_few_classes_cost_no_memory() -> None:
    """Where strangers are far away, scenes are read again instead of being kept."""
    scenes = Counted(600, kinds="ab")  # most pictures show both classes
    largest = 0
    for view in views(scenes, ("shuffled", "absent"), batch=4):
        for other in view.absent:
            assert other is None or view.reader[other].scene.name == f"s{other}"
        largest = max(largest, len(view.reader._memory))
    assert largest <= KEPT + 3 * 4


def test_what_is_not_wanted_is_not_read() -> None:
    scenes = Counted(12)
    ticks: list[tuple[int, int]] = []
    seen = list(views(scenes, batch=4, wanted=lambda numbers: 5 in numbers, tick=lambda *done: ticks.append(done)))
    assert [view.numbers for view in seen] == [[4, 5, 6, 7]]
    assert set(scenes.reads) == {4, 5, 6, 7}
    assert ticks == [(12, 12)]


def test_scenes_of_different_sizes_are_looked_at_apart() -> None:
    scenes = Counted(9, sources=(2, 1, 2))
    for view in views(scenes, ("shuffled",), batch=6):
        assert len({scene.masks.shape for scene in view.scenes}) == 1
        assert view.truth.shape == (len(view.numbers), len(view.scenes[0].masks), 64, 128)
    assert scenes.reads == dict.fromkeys(range(9), 1)


def test_impressions_are_made_once_and_in_the_order_asked_for() -> None:
    asked: list[str] = []

    def look(scenes: list[Scene]) -> torch.Tensor:
        asked.extend(scene.name for scene in scenes)
        return torch.tensor([[float(scene.image[0, 0, 0])] for scene in scenes])

    view = View(Reader(Counted(6)), [0, 1], [None, None])
    assert view.recall("eye", [2, 0], look).tolist() == [[2], [0]]
    assert view.recall("eye", [0, 1, 0], look).tolist() == [[0], [1], [0]]
    assert asked == ["s2", "s0", "s1"]
    assert view.recall("ear", [1], look).tolist() == [[1]]
    assert asked == ["s2", "s0", "s1", "s1"]


class Watching(torch.nn.Module):
    """Counts the pictures or sounds that go through a module and its copies that share its buffers."""

    count: torch.Tensor

    def __init__(self, module: torch.nn.Module) -> None:
        super().__init__()
        self.module, self.stride = module, getattr(module, "stride", 1)
        self.register_buffer("count", torch.tensor(0))

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        self.count += len(batch)
        return self.module(batch)


@pytest.mark.parametrize("count", [8, 9])
def test_networks_see_and_hear_everything_once_under_all_controls(network: SCAV, count: int) -> None:
    network.visual, network.audio = Watching(network.visual), Watching(network.audio)
    asked = NetworkAnswerer("m", network, (1, 2), negatives=True)
    assert {row.control for row in asked.rows} == {
        *("own", "shuffled", "silent", "blind", "absent", "alone", "lone", "nothing"),
    }
    network.visual.count.zero_()
    scenes = Counted(count)
    evaluate(scenes, [str(number) for number in range(count)], [asked], PRESETS["scav"], (1, 2), batch=4)
    assert scenes.reads == dict.fromkeys(range(count), 1)
    assert network.visual.count == 2 * count  # each picture, and one frame of it alone
    # each sound, silence, each source alone, and noise where nothing that is seen sounds
    noises = sum(nothing_for(number) != "absent" for number in range(count))
    assert 0 < noises < count
    assert network.audio.count == count + 1 + 2 * count + noises


def test_networks_with_one_frozen_eye_share_what_it_sees(network: SCAV, monkeypatch: pytest.MonkeyPatch) -> None:
    network.visual = Watching(network.visual)
    monkeypatch.setattr(type(network), "eye", property(lambda self: Eye("frozen", self.visual, 16)))
    rows = {name: [Row(name), Row(name, "blind")] for name in ("first", "second")}
    asked = [NetworkAnswerer(name, network, (1, 2), rows=each) for name, each in rows.items()]
    found = evaluate(Counted(6), list("abcdef"), asked, PRESETS["scav"], (1, 2), batch=4)
    assert network.visual.count == 6
    first, second = (found.scores[Row(name, "blind")].pairs for name in rows)
    assert torch.equal(first.ap, second.ap)


@pytest.mark.parametrize(("count", "times"), [(4, 2), (5, 3)])
def test_what_follows_from_a_picture_is_made_once_for_all_controls(network: SCAV, count: int, times: int) -> None:
    """Of an odd number of scenes, none is the partner of its partner, and other pictures are looked at for `blind`;
    one frame of each is looked at alone."""
    network.project_visual = Watching(network.project_visual)  # type: ignore[assignment]
    asked = NetworkAnswerer("m", network, (1, 2), negatives=True)
    scenes = [Counted(count)[number] for number in range(count)]
    view = View.of(scenes)
    together = asked.answer(view)
    assert network.project_visual.count == times * count
    for row in asked.rows:
        alone = NetworkAnswerer("m", network, (1, 2), rows=[row]).answer(View.of(scenes))[row]
        assert torch.equal(together[row].maps, alone.maps), row
