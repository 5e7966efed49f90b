"""What preparing and feeding cost, measured on a few tiny clips; and the formulas of docs/scale.md."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from soundwhere.bench.feeding import bench_feed
from soundwhere.bench.preparing import bench_prepare
from soundwhere.bench.scale import Rates, feeding, fill_page, preparing
from soundwhere.cli.main import run
from soundwhere.errors import DataError

PAGE = Path(__file__).parents[2] / "docs" / "scale.md"
RATES = Rates(prepared=2.0, clip_bytes=500_000, fed=100.0)


def test_preparing_is_measured_against_plain_loops(tmp_path: Path) -> None:
    found = bench_prepare(tmp_path, clips=2, rounds=1, seconds=1.0)
    assert found.prepared > 0
    assert found.decoded > 0
    assert found.ratio == pytest.approx(found.prepared / found.decoded)
    assert found.clip_bytes > 10_000
    assert found.video_bytes > 1000
    assert list(found.memory_mb) == ["1", "4"]
    assert all(20 < megabytes < 2000 for megabytes in found.memory_mb.values())


def test_feeding_is_measured_against_videos_and_a_plain_read(tmp_path: Path) -> None:
    found = bench_feed(tmp_path, clips=2, rounds=1, seconds=4.0)
    assert found.clips == 2
    assert found.ratio == pytest.approx(found.shards / found.videos)
    assert found.share_of_read == pytest.approx(found.shards * found.clip_bytes / found.read_mb / 1e6)
    assert min(found.shards, found.videos, found.read_mb) > 0


def test_the_budget_by_hand() -> None:
    found = preparing(RATES, 200_000)
    assert found["core_hours"] == pytest.approx(27.78, abs=0.01)
    assert found["bytes"] == 1e11
    assert found["shards"] == 373  # of 268 435 456 bytes
    eight = feeding(RATES, 8, 250.0, 200_000)
    assert eight == {"clips_s": 4000.0, "mb_s": 2000.0, "cores": 40.0, "epoch_s": 100.0}


def test_the_page_is_filled_from_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "scale.md"
    page.write_text(PAGE.read_text())
    assert run(["bench", "scale", "--figures", str(tmp_path), "--page", str(page)]) == 2
    assert "holds no figures" in capsys.readouterr().err
    made = {"prepared": 4.0, "workers": 2, "clip_bytes": 500_000, "ratio": 0.9, "memory_mb": {"6": 75.2, "24": 78.0}}
    (tmp_path / "prepare.json").write_text(json.dumps(made))
    (tmp_path / "feed.json").write_text(json.dumps({"shards": 100.0, "ratio": 12.34, "share_of_read": 0.0048}))
    assert run(["bench", "scale", "--figures", str(tmp_path), "--page", str(page)]) == 0
    text = page.read_text()
    assert "| VGGSound | 200 000 | 28 | 0.10 TB | 373 |" in text
    assert "| most memory of a worker | 75 MB after 6 clips, 78 MB after 24 clips |" in text
    assert "| fed from shards, against a plain read of the same bytes | 0.48% |" in text
    assert "| `index.bin`, mapped | 48 | 0.01 GB | 4.80 GB |" in text
    assert "| 8 | 4000 | 2000 | 40 | 100 |" in text
    assert fill_page(text, Rates.read(tmp_path)) == text  # once more changes nothing
    page.write_bytes(b"\xd0\x00")
    assert run(["bench", "scale", "--figures", str(tmp_path), "--page", str(page)]) == 2
    assert "not text in UTF-8" in capsys.readouterr().err


def test_the_page_holds_what_was_measured() -> None:
    """Figures are never typed: the page is what the files make of it."""
    text = PAGE.read_text()
    figures = PAGE.parent / "figures"
    if (figures / "prepare.json").exists() and (figures / "feed.json").exists():
        assert fill_page(text, Rates.read(figures)) == text
    else:
        assert text.count("not measured yet") == 2


def test_figures_that_are_damaged_are_refused(tmp_path: Path) -> None:
    (tmp_path / "prepare.json").write_text("{}")
    (tmp_path / "feed.json").write_text("{}")
    with pytest.raises(DataError, match="holds no figures"):
        Rates.read(tmp_path)
