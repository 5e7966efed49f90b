from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from soundwhere.analysis.convergence import OTHER_SOUND, Observations, by_dominance, first_wins, kept_steps, observe
from soundwhere.analysis.results import convergence_results, gap
from soundwhere.analysis.winners import agreement, logistic, predict
from soundwhere.config import CONFIGS
from soundwhere.data.synthetic.scenes import WorldScenes
from soundwhere.data.synthetic.world import World
from soundwhere.errors import ConfigError, DataError
from soundwhere.methods.scav.model import SCAV
from soundwhere.metrics.pairs import PairScores

if TYPE_CHECKING:
    from pathlib import Path

    from soundwhere.types import Scene

SCENES = WorldScenes(World(7, (64, 128)), 20, silent=0, layout="side-by-side")


def observed(left: np.ndarray, level_db: np.ndarray, doublings: np.ndarray) -> Observations:
    """One answer that overlaps the first source where `left`, else the second; the first is the left one."""
    count = len(left)
    iou = np.stack([left, ~left], axis=1).astype(float).ravel()
    scene, source = np.divmod(np.arange(2 * count), 2)
    zeros = np.zeros(2 * count)
    rows = np.stack([scene, source, zeros, iou, iou, zeros, zeros], axis=1)
    pairs = PairScores.from_rows(torch.from_numpy(rows))
    names = tuple(map(str, range(count)))
    return Observations(names, {"answer": pairs}, np.ones(count, dtype=bool), level_db, doublings, 0)


def random_scenes(count: int = 400) -> tuple[np.ndarray, np.ndarray, np.random.Generator]:
    rng = np.random.default_rng(0)
    return rng.uniform(-12, 12, count), rng.normal(size=count), rng


def test_logistic_regression_is_scikit_learns() -> None:
    level, size, rng = random_scenes(200)
    table = np.stack([np.ones(200), level, size], axis=1)
    outcome = rng.random(200) < 1 / (1 + np.exp(-0.3 * level))
    reference = LogisticRegression(C=1.0, fit_intercept=False, tol=1e-10, max_iter=1000).fit(table, outcome)
    np.testing.assert_allclose(logistic(table, outcome), reference.coef_[0], atol=1e-5)


def test_the_louder_source_wins_where_loudness_decides() -> None:
    level, size, _ = random_scenes()
    found = predict(observed(level > 0, level, size), "answer")
    assert found.louder is not None
    assert found.larger is not None
    assert found.odds_louder is not None
    assert found.odds_larger is not None
    assert found.louder.value == 1
    assert found.larger.low < 0.5 < found.larger.high
    assert found.odds_louder.low > 5
    assert found.odds_larger.low < 1 < found.odds_larger.high
    assert found.odds_left.low < 1 < found.odds_left.high


def test_planted_odds_are_found() -> None:
    level, size, rng = random_scenes(4000)
    chance = 1 / (1 + np.exp(-(np.log(2) * level / 6 + np.log(3) * size + np.log(1.5))))
    found = predict(observed(rng.random(4000) < chance, level, size), "answer")
    for odds, planted in ((found.odds_louder, 2), (found.odds_larger, 3), (found.odds_left, 1.5)):
        assert odds is not None
        assert odds.low < planted < odds.high


def test_what_scenes_do_not_differ_in_predicts_nothing() -> None:
    _, size, rng = random_scenes(50)
    found = predict(observed(rng.random(50) < 0.5, np.full(50, np.nan), size), "answer")
    assert found.louder is None
    assert found.odds_louder is None
    same = predict(observed(rng.random(50) < 0.5, np.zeros(50), np.zeros(50)), "answer")
    assert same.larger is None
    assert same.louder is None


def test_agreement_beside_chance() -> None:
    first = np.array([True] * 6 + [False] * 4)
    second = np.array([True] * 5 + [False] * 5)
    found = agreement("a", "b", first, second)
    assert found.share.value == 0.9
    assert found.chance == pytest.approx(0.6 * 0.5 + 0.4 * 0.5)
    assert found.kappa == pytest.approx(0.8)
    always = agreement("a", "b", np.ones(3, bool), np.ones(3, bool))
    assert (always.share.value, always.chance, always.kappa) == (1, 1, None)


def test_first_wins_and_dominance_agree() -> None:
    left = np.array([True, False, True])
    pairs = observed(left, np.zeros(3), np.zeros(3)).pairs["answer"]
    assert first_wins(pairs).tolist() == left.tolist()
    assert by_dominance(pairs)[0].source.tolist() == [0, 1, 0]
    assert gap(pairs)["gap"]["ciou@0.3"].value == 1


@pytest.fixture(scope="module")
def model() -> SCAV:
    torch.manual_seed(0)
    return SCAV(replace(CONFIGS["scav-tiny"], frame_px=64, decouple=False)).eval()


def test_everybody_is_asked_about_every_scene(model: SCAV) -> None:
    ticks: list[int] = []
    found = observe({"m": model}, SCENES, grid=(1, 2), sigma_px=20, tick=ticks.append)
    assert list(found.pairs) == ["m", f"m, {OTHER_SOUND}", "feature norm of m", "constant", "random"]
    assert sum(ticks) == len(SCENES) == len(found.names)
    assert all(len(pairs) == 2 * len(SCENES) for pairs in found.pairs.values())
    assert found.first_is_left.all()  # so the made-up world lays them out
    assert found.left_wins("constant").all()
    np.testing.assert_allclose(found.level_db, 0, atol=1e-3)
    areas = np.array([scene.masks.sum((1, 2)) for scene in SCENES])
    np.testing.assert_allclose(found.doublings, np.log2(areas[:, 0] / areas[:, 1]))
    own, other = found.pairs["m"], found.pairs[f"m, {OTHER_SOUND}"]
    assert not torch.equal(own.ap, other.ap)
    tables, values = convergence_results(found)
    assert tables[0].title == "Dominant against second source"
    assert values["scenes"] == len(SCENES)
    assert len(tables[0].rows) == 3 * (1 + 5)


def test_gains_change_levels_and_nothing_else(model: SCAV) -> None:
    found = observe({}, SCENES, grid=(1, 2), gain_db=10)
    assert np.abs(found.level_db).max() > 3
    assert np.abs(found.level_db).max() <= 20
    plain = observe({}, SCENES, grid=(1, 2))
    assert torch.equal(found.pairs["random"].iou, plain.pairs["random"].iou)
    assert list(plain.pairs) == ["constant", "random"]


class Mixed(Sequence["Scene"]):
    """Duets, with one that has a single source and one whose second source is hidden."""

    def __len__(self) -> int:
        return 6

    def __getitem__(self, index: int) -> Scene:  # type: ignore[override]
        scene = SCENES[range(6)[index]]
        if index == 2:
            return replace(scene, masks=scene.masks[:1], sounds=scene.sounds[:1])
        if index == 4:
            return replace(scene, masks=scene.masks * np.array([1, 0], bool)[:, None, None])
        return scene


class Slices(Mixed):
    def __getitem__(self, index: int | slice) -> Scene | list[Scene]:  # type: ignore[override]
        if isinstance(index, slice):
            return [super(Slices, self).__getitem__(i) for i in range(*index.indices(6))]
        return super().__getitem__(index)


def test_scenes_without_two_sources_are_left_out_and_counted(model: SCAV) -> None:
    found = observe({"m": model}, Slices(), grid=(1, 2))
    assert found.left_out == 2
    assert found.names == tuple(SCENES[i].name for i in (0, 1, 3, 5))
    solos = WorldScenes(World(7, (64, 64)), 3, sounding=1)
    with pytest.raises(DataError, match="two sources"):
        observe({}, solos)


def test_kept_steps(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="stage-one"):
        kept_steps(tmp_path)
    (tmp_path / "stage-one.safetensors").touch()
    assert kept_steps(tmp_path) == []
    (tmp_path / "steps").mkdir()
    for name in ("stage-one-000020", "stage-one-000000", "stage-two-000020"):
        (tmp_path / "steps" / f"{name}.safetensors").touch()
    assert [step for step, _ in kept_steps(tmp_path)] == [0, 20]
