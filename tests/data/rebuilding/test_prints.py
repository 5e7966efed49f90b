"""Fingerprints outlast harmless changes, tell things apart, and find a cut."""

from __future__ import annotations

import numpy as np
import pytest

from soundwhere.data.rebuilding.photo_prints import SAME_PHOTO, photo_distance, photo_print
from soundwhere.data.rebuilding.sound_prints import SAME_SOUND, find, sound_distance, sound_print


def blobs(number: int) -> np.ndarray:
    from PIL import Image

    coarse = np.random.default_rng(number).integers(0, 256, (7, 7, 3), dtype=np.uint8)
    return np.array(Image.fromarray(coarse).resize((150, 100), Image.Resampling.BICUBIC))


def chirps(number: int, seconds: int = 8) -> np.ndarray:
    rng, time_s = np.random.default_rng(number), np.arange(2_205) / 22_050
    steps = [rng.uniform(0.01, 0.3) * np.sin(2 * np.pi * rng.uniform(150, 5000) * time_s) for _ in range(seconds * 10)]
    return np.concatenate(steps).astype(np.float32)


def test_a_photo_is_recognised_after_harmless_changes_and_no_other_is(list_script) -> None:
    prints = [photo_print(blobs(number)) for number in range(12)]
    for change in list_script.PHOTO_CHANGES.values():
        for number, own in enumerate(prints):
            distances = [photo_distance(photo_print(change(blobs(number))), other) for other in prints]
            assert distances[number] == photo_distance(photo_print(change(blobs(number))), own) <= SAME_PHOTO
            assert min(d for other, d in enumerate(distances) if other != number) > SAME_PHOTO


def test_a_sound_is_recognised_after_harmless_changes_and_no_other_is(list_script) -> None:
    sounds = [chirps(number)[: 5 * 22_050] for number in range(5)]
    prints = [sound_print(sound) for sound in sounds]
    for change in list_script.SOUND_CHANGES.values():
        for number, sound in enumerate(sounds):
            distances = [sound_distance(change(sound), listed) for listed in prints]
            assert distances.pop(number) <= SAME_SOUND < min(distances)


@pytest.mark.parametrize("start", [0, 3_300, 37_485])
def test_a_cut_is_found_within_5_ms(start: int) -> None:
    recording = chirps(3)
    found, distance = find(recording, sound_print(recording[start : start + 2 * 22_050]))
    assert abs(found - start) <= 110
    assert distance <= SAME_SOUND
    assert sound_distance(recording[:1_000], sound_print(recording)) == float("inf")


@pytest.mark.parametrize("seconds", [0.32, 1.3, 3.9])
def test_the_length_of_a_repeated_sound_is_measured(list_script, seconds: float) -> None:
    body = chirps(5)[: round(seconds * 22_050)]
    period = np.concatenate([body, np.zeros(3_307, np.float32)])
    looped = np.tile(period, 20)[: 5 * 22_050]
    assert list_script.body_samples(looped, f"looped {seconds:.2f}s") == pytest.approx(len(body), abs=1)
    assert list_script.body_samples(looped, "looped or cut") == pytest.approx(len(body), abs=1)
