"""Movies: the file shows and plays what its truth says."""

from __future__ import annotations

import json

import av
import numpy as np
import pytest

from soundwhere.constants import SAMPLE_RATE_HZ
from soundwhere.data.synthetic import World
from soundwhere.data.synthetic.movie import _gate, _intervals, _journey, write_movie
from soundwhere.errors import ConfigError
from soundwhere.media.audio import read_audio

WORLD = World(6, (96, 128))


@pytest.fixture(scope="module")
def movie(tmp_path_factory):
    path = tmp_path_factory.mktemp("movie") / "clip.mp4"
    return path, write_movie(path, WORLD, 1, seconds=4.0, fps=10)


def test_the_truth_is_written_beside_the_video(movie):
    path, truth = movie
    stored = json.loads(path.with_suffix(".truth.json").read_text(encoding="utf-8"))
    assert stored == json.loads(json.dumps(truth.to_dict()))
    assert (stored["video"], stored["width"], stored["height"], stored["fps"]) == ("clip.mp4", 128, 96, 10)
    assert [len(thing["sounding_s"]) > 0 for thing in stored["things"]] == [True, True, False]
    assert {thing.kind for thing in truth.things} == {thing.kind for thing in WORLD.cast(1, 2, 1)}


def test_frames_show_the_things_in_their_boxes(movie):
    path, truth = movie
    with av.open(str(path)) as container:
        frames = np.stack([frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]).astype(int)
    assert frames.shape == (40, 96, 128, 3)
    background = WORLD.picture(1, ())[0].astype(int)
    for number, frame in enumerate(frames):
        seen = np.abs(frame - background).max(-1) > 60  # far more than compression does
        outside = seen.copy()
        for thing in truth.things:
            left, top, right, bottom = thing.boxes[number]
            assert 0 <= left < right <= 128
            assert 0 <= top < bottom <= 96
            assert seen[top:bottom, left:right].sum() > 0.3 * thing.areas[number]
            outside[max(0, top - 1) : bottom + 1, max(0, left - 1) : right + 1] = False
        assert outside.mean() < 0.002


def test_sound_is_heard_exactly_when_something_sounds(movie):
    path, truth = movie
    sound = read_audio(path)
    assert len(sound) / SAMPLE_RATE_HZ == pytest.approx(4, abs=0.1)
    expected = np.zeros(len(sound), bool)
    margin = round(0.06 * SAMPLE_RATE_HZ)  # an encoder's smearing
    near = np.zeros(len(sound), bool)
    for start, end in (times for thing in truth.things for times in thing.sounding_s):
        first, last = round(start * SAMPLE_RATE_HZ), round(end * SAMPLE_RATE_HZ)
        expected[first:last] = True
        near[max(0, first - margin) : last + margin] = True
        assert np.sqrt(np.mean(sound[first:last] ** 2)) > 0.03
    assert np.abs(sound[~near]).max(initial=0) < 0.01
    tracks = [
        World(6, (96, 128), seconds=4).sound(1, thing) * _gate(truth.things[number].sounding_s, 4)
        for number, thing in enumerate(WORLD.cast(1, 2, 1)[:2])
    ]
    shared = min(len(sound), len(tracks[0]))
    assert np.corrcoef(sound[:shared], sum(tracks)[:shared])[0, 1] > 0.9


def test_a_movie_starts_with_its_scene(movie):
    _, truth = movie
    scene = WORLD.scene(1)
    assert [thing.areas[0] for thing in truth.things[:2]] == scene.masks.sum((1, 2)).tolist()


@pytest.mark.parametrize("index", range(12))
def test_things_move_smoothly_inside_the_frame_and_stay_apart(index):
    world = World(9, (128, 160))
    things = world.cast(index, 2, 2)
    journey = _journey(np.random.default_rng(index), things, world.size, 200, 25)
    places = np.array([[(thing.x, thing.y) for thing in frame] for frame in journey])
    angles = np.array([[thing.angle for thing in frame] for frame in journey])
    radii = np.array([thing.radius for thing in things])
    assert (places >= radii[:, None] - 1e-6).all()
    assert (places <= np.array([160, 128]) - radii[:, None] + 1e-6).all()
    assert np.hypot(*np.diff(places, axis=0).T).max() < 128 * 0.9 / 25  # no jumps
    assert np.hypot(*(places.max(0) - places.min(0)).T).min() > 10  # nobody stands still
    assert np.abs(np.diff(angles, axis=0)).max() < 0.05
    for first in range(4):
        for second in range(first):
            gap = np.hypot(*(places[:, first] - places[:, second]).T)
            assert (gap > 0.95 * (radii[first] + radii[second])).all()


def test_intervals_are_ordered_at_frames_and_long_enough():
    for seed in range(200):
        times = np.array(_intervals(np.random.default_rng(seed), 150, 25))
        assert (np.diff(times.ravel()) > 0.5).all()
        assert times.min() >= 0
        assert times.max() <= 6
        assert np.allclose(times * 25, np.round(times * 25))


def test_a_gate_is_closed_outside_its_intervals():
    gate = _gate(((0.5, 1.0), (1.5, 2.0)), 2.0)
    time = np.arange(len(gate)) / SAMPLE_RATE_HZ
    inside = ((time >= 0.5) & (time < 1)) | (time >= 1.5)
    assert not gate[~inside].any()
    assert (gate[inside] > 0).all()
    assert gate.max() == 1


def test_a_movie_looks_the_same_whether_things_sound_or_not(tmp_path):
    world, pictures, truths = World(6, (64, 64)), [], []
    for sounding in (0, 2):
        path = tmp_path / f"{sounding}.mp4"
        truths.append(write_movie(path, world, 3, 2.0, 5, sounding, 2 - sounding))
        with av.open(str(path)) as container:
            frames = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
        pictures.append(np.stack(frames).astype(int))
    assert np.abs(pictures[0] - pictures[1]).mean() < 0.5  # an encoder may vary a little from run to run
    assert [thing.boxes for thing in truths[0].things] == [thing.boxes for thing in truths[1].things]
    assert np.abs(read_audio(tmp_path / "0.mp4")).max(initial=0) < 0.01
    assert np.abs(read_audio(tmp_path / "2.mp4")).max() > 0.05


@pytest.mark.parametrize(("seconds", "fps"), [(1.0, 25), (6.0, 0)])
def test_impossible_movies_are_refused(tmp_path, seconds, fps):
    with pytest.raises(ConfigError, match="cannot be made"):
        write_movie(tmp_path / "clip.mp4", WORLD, 0, seconds, fps)
