"""How fast any method trains: all its stages, on the same scenes as a loop that remembers nothing."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from soundwhere.bench import rivals
from soundwhere.bench.rivals import DecodedAnew, MethodBench, StageSpeed, bench_method, made_up
from soundwhere.cli.main import run
from soundwhere.data.clips import StillClip
from soundwhere.data.training_scenes import Needs, make_draws
from soundwhere.methods.catalogue import read_config

if TYPE_CHECKING:
    from soundwhere.config import Config

CONFIGS = Path(__file__).parents[2] / "configs" / "rivals"


def small(name: str, folder: Path) -> Config:
    """A controlled configuration with tiny encoders, on six clips."""
    config = read_config(CONFIGS / f"{name}-controlled.toml")
    sizes = {"visual": "tiny", "audio": "tiny", "frame_px": 32, "dimension": 16, "hidden": 16, "clusters": 2}
    known = {field.name for field in fields(config.method)} & sizes.keys()
    method: Any = replace(config.method, **{key: sizes[key] for key in known})
    return made_up(replace(config, method=method), folder, 6, 4)


@pytest.mark.parametrize(("name", "stages"), [("dsol", 4), ("avgn", 1), ("oa-ssl", 1)])
def test_every_stage_is_timed(name: str, stages: int, tmp_path: Path) -> None:
    config = small(name, tmp_path)
    result = bench_method(config, steps=2)
    assert len(result.stages) == stages
    assert sum(stage.steps for stage in result.stages) == 900
    assert all(0 < speed < np.inf for stage in result.stages for speed in (stage.ours, stage.plain))


def test_the_whole_training_is_weighed_by_its_steps() -> None:
    result = MethodBench((StageSpeed("one", 10.0, 1.0, 30), StageSpeed("two", 2.0, 2.0, 10)))
    assert result.ours == pytest.approx(40 / (3 + 5))
    assert result.plain == pytest.approx(40 / (30 + 5))
    assert result.ratio == pytest.approx(35 / 8)


def test_the_plain_loop_reads_the_same_scenes_from_files_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = small("lvs", tmp_path)
    draws = make_draws(config.data, Needs(sounds=2), batch_size=4, seed=0, frame_px=32)
    plain = DecodedAnew(draws)
    ours, theirs = draws.draw(3, pictures=True), plain.draw(3)
    np.testing.assert_array_equal(ours.sounds, theirs.sounds)
    assert ours.image is not None
    assert theirs.image is not None
    np.testing.assert_array_equal(ours.image, theirs.image)
    read = []
    for name in ("recording", "image"):
        real = getattr(StillClip, name)
        monkeypatch.setattr(StillClip, name, lambda clip, real=real: read.append(clip) or real(clip))
    draws.draw(3, pictures=True)
    assert len(read) == 0
    plain.draw(3)
    plain.draw(3)
    assert len(read) == 8


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    found = MethodBench((StageSpeed("one", 4.0, 2.0, 10),))
    monkeypatch.setattr(rivals, "bench_method", lambda *_, **__: found)
    assert run(["bench", "train", "--method", "ez-vsl", "--configs", str(CONFIGS), "--clips", "2"]) == 0
    out = capsys.readouterr().out
    assert "stage one" in out
    assert "2.00 times as fast as decoding and encoding everything at every step" in out
    assert run(["bench", "train", "--method", "weather", "--configs", str(tmp_path)]) == 2
    assert "has no configuration of 'weather'" in capsys.readouterr().err


def test_every_method_in_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rivals, "bench_method", lambda *_, **__: MethodBench((StageSpeed("one", 4.0, 2.0, 10),)))
    file = tmp_path / "train.json"
    assert (
        run(["bench", "train", "--method", "all", "--configs", str(CONFIGS), "--clips", "2", "--json", str(file)]) == 0
    )
    written = json.loads(file.read_text())
    assert written["command"] == "soundwhere bench train --method all"
    assert {"ez-vsl", "dmc-duet", "ssl-tie", "oa-ssl"} < {row["method"] for row in written["rows"]}
    assert {row["ratio"] for row in written["rows"]} == {2.0}
