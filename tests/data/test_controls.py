from __future__ import annotations

import numpy as np
import pytest

from soundwhere.data.controls import noise, partner


@pytest.mark.parametrize("count", [2, 3, 4, 7, 100])
def test_every_scene_has_another_partner_and_is_one_once(count: int) -> None:
    partners = [partner(index, count) for index in range(count)]
    assert sorted(partners) == list(range(count))
    assert all(other != own for own, other in enumerate(partners))
    assert all(abs(other - own) in (count // 2, count - count // 2) for own, other in enumerate(partners))


@pytest.mark.parametrize(("kind", "slope_db"), [("white", 0.0), ("pink", -3.0)])
def test_noise_is_as_loud_as_sounds_and_coloured_as_it_is_called(kind: str, slope_db: float) -> None:
    wave = noise(kind, 66150, 4)
    assert wave.dtype == np.float32
    assert np.sqrt(np.mean(wave**2)) == pytest.approx(0.1, rel=1e-5)
    power = np.abs(np.fft.rfft(wave)) ** 2
    octaves = 10 * np.log10([power[2**n : 2 ** (n + 1)].mean() for n in range(8, 15)])
    assert np.polyfit(range(7), octaves, 1)[0] == pytest.approx(slope_db, abs=0.3)
    assert np.array_equal(noise(kind, 100, 4), noise(kind, 100, 4))
    assert not np.array_equal(noise(kind, 100, 4), noise(kind, 100, 5))
