"""Kinds can be told apart by ear, and by eye without colour; colour alone tells little."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image as Pillow
from scipy.signal import stft

from soundwhere.constants import CLIP_SAMPLES, SAMPLE_RATE_HZ
from soundwhere.data.synthetic import KINDS, World, boxes
from soundwhere.data.synthetic.sounds import synthesise

CHANCE = 1 / len(KINDS)


def band_energies(sound):
    """Mean, spread and movement over time of the log energy in 24 bands, shape (72,)."""
    frequencies, _, spectrum = stft(sound, SAMPLE_RATE_HZ, nperseg=1102, noverlap=551)
    band = np.digitize(frequencies, np.geomspace(60, 10_000, 25))
    energy = np.log(np.stack([(np.abs(spectrum[band == number]) ** 2).sum(0) for number in range(1, 25)]) + 1e-2)
    return np.concatenate([energy.mean(1), energy.std(1), np.abs(np.diff(energy)).mean(1)])


def accuracy(train, test):
    """Share of `test` (kinds, draws, features) that is nearest to the mean of its own kind in `train`."""
    spread = train.std((0, 1)) + 1e-9
    distance = (((test[:, :, None] - train.mean(1)) / spread) ** 2).sum(-1)
    return (distance.argmin(-1) == np.arange(len(KINDS))[:, None]).mean()


def test_kinds_can_be_heard():
    features = np.stack(
        [
            [band_energies(synthesise(kind, np.random.default_rng(draw), CLIP_SAMPLES)) for draw in range(16)]
            for kind in KINDS
        ]
    )
    assert accuracy(features[:, :8], features[:, 8:]) > 0.85


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("samples", [2_000, CLIP_SAMPLES, 2 * CLIP_SAMPLES])
def test_sounds_are_finite_level_and_without_offset(kind, samples):
    sound = synthesise(kind, np.random.default_rng(3), samples)
    assert sound.shape == (samples,)
    assert sound.dtype == np.float32
    assert np.isfinite(sound).all()
    assert np.sqrt(np.mean(sound.astype(np.float64) ** 2)) == pytest.approx(1, rel=1e-4)
    if samples >= CLIP_SAMPLES:
        assert abs(sound.mean()) < 0.05
        assert np.abs(sound).max() < 16  # 1.6 at the level of a mixture


@pytest.mark.parametrize("kind", KINDS)
def test_no_two_draws_sound_the_same(kind):
    first, second = (synthesise(kind, np.random.default_rng(draw), CLIP_SAMPLES) for draw in (0, 1))
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.3


@pytest.fixture(scope="module")
def portraits():
    """For each kind and draw: a grey picture of the thing without its surroundings, its mask, its mean colour."""
    world = World(8, (128, 128))
    grey, shapes, colours = ([[] for _ in KINDS] for _ in range(3))
    for index in range(200):
        things = world.cast(index, 3, 0)
        image, masks = world.picture(index, things)
        for thing, mask, (left, top, right, bottom) in zip(things, masks, boxes(masks), strict=True):
            kind = KINDS.index(thing.kind)
            cut = Pillow.fromarray(image[top:bottom, left:right]).convert("L").resize((32, 32))
            shape = Pillow.fromarray(mask[top:bottom, left:right]).convert("L").resize((32, 32))
            grey[kind].append(np.asarray(cut, float))
            shapes[kind].append(np.asarray(shape, float) / 255)
            colours[kind].append(image[mask].mean(0))
    draws = min(map(len, grey))
    assert draws >= 20
    return tuple(np.stack([part[:draws] for part in parts]) for parts in (grey, shapes, colours))


def test_kinds_can_be_seen_without_colour(portraits):
    grey, shapes, _ = portraits
    upright = np.minimum(shapes, shapes[..., ::-1]).reshape(*shapes.shape[:2], -1)  # whichever way it is mirrored
    spectrum = np.abs(np.fft.rfft2((grey - grey.mean((2, 3), keepdims=True)) * shapes))
    spectrum = np.log(spectrum / spectrum.mean((2, 3), keepdims=True) + 0.1).reshape(*grey.shape[:2], -1)
    half = grey.shape[1] // 2
    by_outline = accuracy(upright[:, :half], upright[:, half:])
    by_texture = accuracy(spectrum[:, :half], spectrum[:, half:])
    assert by_outline > 0.7
    assert by_texture > 0.5
    both = np.concatenate([upright, spectrum], axis=-1)
    assert accuracy(both[:, :half], both[:, half:]) > 0.75


def test_colour_does_not_give_the_kind_away(portraits):
    colours = portraits[2]
    half = colours.shape[1] // 2
    assert accuracy(colours[:, :half], colours[:, half:]) < 3 * CHANCE
