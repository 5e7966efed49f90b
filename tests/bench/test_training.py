from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from soundwhere.bench.training import PlainDraws, bench_training, write_clips
from soundwhere.constants import CLIP_SAMPLES, MIXING_RMS
from soundwhere.data.folder import FolderClips
from soundwhere.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

    from soundwhere.data.clips import StoredClip
    from soundwhere.methods.scav.config import SCAVConfig


@pytest.fixture(scope="module")
def clips(tmp_path_factory: pytest.TempPathFactory) -> list[StoredClip]:
    found = FolderClips(write_clips(tmp_path_factory.mktemp("bench") / "clips", 3))
    assert not found.problems
    return [found[index] for index in range(len(found))]


def test_plain_scenes_are_read_from_disk_each_time(clips: list[StoredClip], monkeypatch: pytest.MonkeyPatch) -> None:
    draws = PlainDraws(clips, 32)
    example = draws.draw(0)
    assert example.image is not None
    assert example.image.shape == (32, 64, 3)
    assert example.sounds.shape == (2, CLIP_SAMPLES)
    np.testing.assert_allclose(np.sqrt(np.square(example.sounds).mean(1)), MIXING_RMS, rtol=1e-3)
    np.testing.assert_array_equal(draws.draw(0).sounds, example.sounds)
    read = []
    kind = type(clips[0])
    recording = kind.recording
    monkeypatch.setattr(kind, "recording", lambda clip: read.append(clip) or recording(clip))
    draws.draw(0)
    draws.draw(0)
    assert len(read) == 4


def test_every_part_and_both_loops_are_timed(clips: list[StoredClip], config: SCAVConfig, tmp_path: Path) -> None:
    frozen = replace(config, freeze_visual=True)
    result = bench_training(clips, frozen, tmp_path / "features", batch_size=2, steps=2)
    assert list(result.parts) == [
        "decode",
        "loader",
        "spectrogram",
        "audio encoder, forward and backward",
        "visual encoder",
        "loss on what is seen, forward and backward",
        "optimiser",
    ]
    assert all(0 < speed < np.inf for speed in (*result.parts.values(), result.ours, result.plain))
    assert result.parts["loader"] > result.parts["decode"]  # memory and cached features against files
    assert result.ratio == result.ours / result.plain
    assert len(list((tmp_path / "features").rglob("*.npy"))) == 3


def test_a_trained_eye_has_nothing_to_cache(clips: list[StoredClip], config: SCAVConfig, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is trained too"):
        bench_training(clips, config, tmp_path)
