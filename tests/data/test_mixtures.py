from __future__ import annotations

import pickle
from collections import Counter

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from soundwhere.constants import CLIP_SAMPLES, MIXING_RMS
from soundwhere.data import draws as draws_module
from soundwhere.data.draws import batches
from soundwhere.data.features import FeatureCache
from soundwhere.data.mixtures import Mixtures, NativeScenes, PoolPictures
from soundwhere.errors import ConfigError, DataError

OPTIONS = {"batch_size": 4, "seed": 7, "frame_px": 32}


def shown(image: np.ndarray) -> list[int]:
    """The numbers of the clips in a side-by-side picture: clip i is filled with red 20 + 20 i."""
    return [int(red - 20) // 20 for red in image[0, ::32, 0]]


def heard(sound: np.ndarray) -> int:
    """The number of the clip that sounds: clip i is a tone of 200 + 50 i Hz."""
    return round((np.abs(np.fft.rfft(sound)).argmax() / 3 - 200) / 50)


def same(one, other) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True) if a is not None or b is not None)


def test_sounds_belong_to_frames(mini_clips):
    draws = Mixtures(mini_clips, silent=1, **OPTIONS)
    silent_places = Counter()
    for number in range(40):
        example = draws.draw(number)
        frames, sounds = shown(example.image), [heard(sound) for sound in example.sounds]
        assert example.image.shape == (32, 96, 3)
        assert example.sounds.shape == (2, CLIP_SAMPLES)
        assert len(set(frames)) == 3
        assert set(sounds) < set(frames)
        silent_places[next(place for place, frame in enumerate(frames) if frame not in sounds)] += 1
    assert set(silent_places) == {0, 1, 2}


def test_a_draw_depends_on_seed_and_number_only(mini_clips):
    options = OPTIONS | {"silent": 2, "layouts": ("side-by-side", "stacked", "grid"), "gain_db": 6}
    forward = Mixtures(mini_clips, **options)
    numbers = [0, 1, 2, 8, 9, 10, 1000, 12_345_678]
    expected = {number: forward.draw(number) for number in numbers}
    backward = pickle.loads(pickle.dumps(Mixtures(mini_clips, **options)))
    for number in reversed(numbers):
        assert same(backward.draw(number), expected[number])
        assert same(backward.draw(number), expected[number])
    assert not same(Mixtures(mini_clips, **options | {"seed": 8}).draw(0), expected[0])
    assert not np.array_equal(expected[0].sounds, expected[1].sounds)


def test_every_clip_leads_once_an_epoch(mini_clips):
    draws = Mixtures(mini_clips, sources=1, **OPTIONS)
    epochs = [[shown(draws.draw(9 * epoch + place).image)[0] for place in range(9)] for epoch in range(3)]
    assert [sorted(epoch) for epoch in epochs] == [list(range(9))] * 3
    assert len({tuple(epoch) for epoch in epochs}) == 3


def test_partners_are_spread_over_all_clips(mini_clips):
    draws = Mixtures(mini_clips, **OPTIONS)
    partners = Counter(frame for number in range(180) for frame in shown(draws.draw(number).image))
    assert sum(partners.values()) == 360
    assert min(partners.values()) > 20  # each leads 20 times


def test_levels(mini_clips):
    draws = Mixtures(mini_clips, gain_db=6, **OPTIONS)
    rms = np.sqrt(np.mean(np.square([draws.draw(number).sounds for number in range(60)], dtype=np.float64), axis=-1))
    gains_db = 20 * np.log10(rms / MIXING_RMS)
    assert np.abs(gains_db).max() <= 6.001
    assert gains_db.min() < -4.5
    assert gains_db.max() > 4.5
    level = Mixtures(mini_clips, **OPTIONS).draw(0).sounds
    assert np.allclose(np.sqrt(np.mean(level**2, axis=1)), MIXING_RMS, rtol=1e-4)


def test_scenes_of_a_step_share_a_layout(mini_clips):
    draws = Mixtures(mini_clips, silent=2, layouts=("side-by-side", "stacked", "grid"), **OPTIONS)
    shapes = [draws.draw(number).image.shape[:2] for number in range(80)]
    assert all(len(set(shapes[step : step + 4])) == 1 for step in range(0, 80, 4))
    assert set(shapes) == {(32, 128), (128, 32), (64, 64)}


def test_two_processes_share_the_batch_of_one(mini_clips, monkeypatch):
    draws = Mixtures(mini_clips, silent=1, layouts=("side-by-side", "stacked"), gain_db=6, **OPTIONS)
    whole = list(batches(draws, range(2, 5), batch_size=4))
    monkeypatch.setattr(draws_module, "world_size", lambda: 2)
    shares = []
    for rank in (0, 1):
        monkeypatch.setattr(draws_module, "rank", lambda rank=rank: rank)
        shares.append(list(batches(draws, range(2, 5), batch_size=4)))
    for one, first, second in zip(whole, *shares, strict=True):
        assert len(first) == len(second) == 2
        for name in ("mixture", "image", "solos"):
            assert torch.equal(getattr(one, name), torch.cat([getattr(first, name), getattr(second, name)]))
        assert torch.allclose(one.solos.sum(1), one.mixture)


def test_cached_features_are_joined_like_the_frames(mini_clips, tmp_path):
    cache = FeatureCache(tmp_path, "red", 32)
    cache.fill(mini_clips, lambda pictures: F.avg_pool2d(pictures[:, :1], 8))
    options = OPTIONS | {"silent": 2, "layouts": ("side-by-side", "stacked", "grid")}
    draws = Mixtures(mini_clips, features=cache, **options)
    for number in (0, 4, 8, 12, 16, 20):
        cached, seen = draws.draw(number), draws.draw(number, pictures=True)
        assert cached.image is None
        assert seen.features is None
        assert cached.features.dtype == np.float16
        assert np.array_equal(cached.sounds, seen.sounds)
        cells = (seen.image[4::8, 4::8, 0] / 255 - 0.485) / 0.229
        assert np.allclose(cached.features[0], cells, atol=3e-3)
    batch = next(batches(draws, range(1), batch_size=4))
    assert batch.image is None
    assert batch.features.dtype == torch.float32


def test_native_scenes_have_one_sound_and_one_frame(mini_clips):
    draws = NativeScenes(mini_clips, gain_db=3, **OPTIONS)
    assert draws.native
    frames = []
    for number in range(len(draws)):
        example = draws.draw(number)
        assert example.sounds.shape == (1, CLIP_SAMPLES)
        assert shown(example.image) == [heard(example.sounds[0])]
        frames += shown(example.image)
    assert sorted(frames) == list(range(9))
    batch = next(batches(draws, range(1), batch_size=4))
    assert batch.solos is None
    assert batch.mixture.shape == (4, CLIP_SAMPLES)


def test_what_does_not_fit_is_refused(mini_clips):
    with pytest.raises(ConfigError, match="`grid` joins 4 frames, but a scene has 3"):
        Mixtures(mini_clips, silent=1, layouts=("stacked", "grid"), **OPTIONS)
    with pytest.raises(DataError, match="10 frames needs as many pictures, but there are 9"):
        Mixtures(mini_clips, silent=8, **OPTIONS)


def test_clips_with_one_photo_never_meet(own_root):
    from soundwhere.data.real_duet import RealDuet

    text = (own_root / "clips.csv").read_text()
    for number in (1, 3, 4):
        text = text.replace(f"images/{number}.png", "images/0.png")
    (own_root / "clips.csv").write_text(text)
    draws = Mixtures(RealDuet(own_root).clips("train"), **OPTIONS)
    for number in range(30):
        assert len(set(shown(draws.draw(number).image))) == 2


EVERY = {"silent": 2, "vary_silent": True, "layouts": ("side-by-side", "stacked", "grid", "pasted")}


def test_a_pool_shows_the_same_pictures_with_other_sounds(mini_clips):
    draws = Mixtures(mini_clips, pool=10, **EVERY, **OPTIONS)
    assert len(draws) == 12  # whole steps
    first, again = ([draws.draw(12 * epoch + n) for n in range(12)] for epoch in (0, 1))
    assert all(np.array_equal(one.image, other.image) for one, other in zip(first, again, strict=True))
    heard_first, heard_again = ([{heard(sound) for sound in one.sounds} for one in epoch] for epoch in (first, again))
    assert heard_first != heard_again
    for step in range(0, 12, 4):
        assert len({one.image.shape for one in first[step : step + 4]}) == 1


def test_the_number_of_silent_frames_varies(mini_clips):
    draws = Mixtures(mini_clips, **EVERY, **OPTIONS)
    found = {(picture.layout, len(picture.cast)) for picture in map(draws.picture, range(0, 400, 4))}
    rows = {(layout, count) for layout in ("side-by-side", "stacked") for count in (2, 3, 4)}
    assert found == rows | {("grid", 4), ("pasted", 3), ("pasted", 4)}


def test_a_pool_is_encoded_whole(mini_clips, tmp_path):
    draws = Mixtures(mini_clips, pool=24, **EVERY, **OPTIONS)
    cache = FeatureCache(tmp_path, "red", None)
    pictures = PoolPictures(draws)
    assert cache.fill(pictures, lambda images: F.avg_pool2d(images[:, :1], 32)) == 24
    draws.features = cache
    for number in range(24):
        cached, seen = draws.draw(24 + number), draws.draw(24 + number, pictures=True)
        assert np.array_equal(seen.image, pictures.image(number))
        cells = seen.image[..., 0].reshape(seen.image.shape[0] // 32, 32, -1, 32).mean((1, 3))
        assert np.allclose(cached.features[0], (cells / 255 - 0.485) / 0.229, atol=3e-3)


@pytest.mark.parametrize("cell_px", [16, 32])
def test_targets_are_where_the_sounding_frames_are(mini_clips, tmp_path, cell_px):
    targets = FeatureCache(tmp_path, "red", 32)
    targets.fill(mini_clips, lambda images: F.avg_pool2d(images[:, :1] * 0.229 + 0.485, 16))
    draws = Mixtures(mini_clips, targets=targets, cell_px=cell_px, **EVERY, **OPTIONS)
    for number in range(0, 80, 4):
        example, picture = draws.draw(number), draws.picture(number)
        assert example.targets.shape == (2, example.image.shape[0] // cell_px, example.image.shape[1] // cell_px)
        for sound, target in zip(example.sounds, example.targets, strict=True):
            place = picture.arrangement.places[picture.cast.index(heard(sound))]
            red = (20 + 20 * heard(sound)) / 255
            assert picture.layout != "pasted" or place != picture.arrangement.places[0]  # the one below never sounds
            assert target.sum() * cell_px**2 == pytest.approx(red * place.height * place.width, rel=2e-3)
            rows, columns = np.nonzero(target)
            assert rows.min() == place.top // cell_px
            assert columns.max() == (place.left + place.width - 1) // cell_px


def test_what_is_absent_has_an_empty_target(mini_clips, tmp_path):
    targets = FeatureCache(tmp_path, "red", 32)
    targets.fill(mini_clips, lambda images: F.avg_pool2d(images[:, :1] * 0.229 + 0.485, 16))
    draws = Mixtures(mini_clips, targets=targets, absent=0.5, **OPTIONS)
    empty, silent = 0, 0
    for number in range(60):
        example = draws.draw(number)
        assert example.targets[0].max() > 0
        if example.targets[1].max() == 0:
            empty += 1
            silent += not example.sounds[1].any()
        else:
            assert example.sounds[1].any()
    assert 15 < empty < 45
    assert 0 < silent < empty


def test_sounds_as_they_were_recorded_keep_their_levels(mini_clips):
    """Clip i has a level of 0.05 (i + 1), rising within the clip; otherwise each is scaled to one."""
    plain, equal = (Mixtures(mini_clips, level=level, **OPTIONS) for level in ("as-recorded", "equal-rms"))
    ratios = set()
    for number in range(30):
        kept, scaled = plain.draw(number), equal.draw(number)
        for recorded, level in zip(kept.sounds, scaled.sounds, strict=True):
            rms = np.sqrt(np.mean(recorded**2))
            assert np.sqrt(np.mean(level**2)) == pytest.approx(MIXING_RMS, rel=1e-3)
            np.testing.assert_allclose(recorded, level * rms / MIXING_RMS, atol=1e-5)
            share = rms / (0.05 * (heard(recorded) + 1) / np.sqrt(2))
            assert 0.5 < share < 1
            ratios.add(round(rms / MIXING_RMS, 1))
    assert len(ratios) > 5
    louder = Mixtures(mini_clips, level="as-recorded", **{**OPTIONS, "gain_db": 6.0})
    gains = [
        20 * np.log10(np.sqrt(np.mean(one**2) / np.mean(other**2)))
        for number in range(20)
        for one, other in zip(louder.draw(number).sounds, plain.draw(number).sounds, strict=True)
    ]
    assert -6.01 <= min(gains) < -3 < 3 < max(gains) <= 6.01


def test_sounds_that_are_not_shown_are_quieter(mini_clips):
    options = OPTIONS | {"sources": 1}
    clean, disturbed = Mixtures(mini_clips, **options), Mixtures(mini_clips, interference=0.5, **options)
    levels = []
    for number in range(60):
        rest = disturbed.draw(number).sounds[0] - clean.draw(number).sounds[0]
        levels.append(np.sqrt(np.mean(rest**2)) / MIXING_RMS)
    quiet = [level for level in levels if level > 0]
    assert 15 < len(quiet) < 45
    assert min(quiet) > 10 ** (-18.1 / 20)
    assert max(quiet) < 10 ** (-2.9 / 20)


def test_pasting_needs_something_to_paste_onto_and_a_pool(mini_clips, tmp_path):
    with pytest.raises(ConfigError, match="silent frame"):
        Mixtures(mini_clips, layouts=("pasted",), **OPTIONS)
    with pytest.raises(ConfigError, match="encoded whole"):
        Mixtures(mini_clips, layouts=("pasted",), silent=1, features=FeatureCache(tmp_path, "red", 32), **OPTIONS)
