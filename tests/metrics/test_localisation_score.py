import runpy

import pytest
import torch
import torch.distributed as dist

from soundwhere.errors import DataError, MissingExtraError
from soundwhere.metrics import localisation_score
from soundwhere.metrics.localisation_score import LocalisationScore
from soundwhere.metrics.presets import PRESETS, find_preset, score, summarise_as


def scenes(count=7, maps=2):
    generator = torch.Generator().manual_seed(3)
    maps = torch.rand(count, maps, 3, 6, generator=generator)
    truth = torch.rand(count, 2, 16, 32, generator=generator) > 0.6
    return maps, truth


def test_batches_give_the_figures_of_the_whole():
    maps, truth = scenes()
    metric = LocalisationScore()
    for start in range(0, 7, 3):
        metric.update(maps[start : start + 3], truth[start : start + 3])
    whole = score(maps, truth, find_preset("scav"))
    assert {name: value.item() for name, value in metric.compute().items()} == pytest.approx(
        summarise_as(whole, find_preset("scav"))
    )
    assert metric.pairs().scene.tolist() == whole.scene.tolist()
    assert metric.pairs().ap.tolist() == whole.ap.tolist()


@pytest.mark.parametrize("name", PRESETS)
def test_a_scene_handed_out_twice_counts_once(name):
    maps, truth = scenes(maps=4)  # two maps without a source
    metric = LocalisationScore(name)
    metric.update(maps, truth, torch.arange(7))
    before, rows = metric.compute(), len(metric.pairs())
    assert rows == len(score(maps, truth, PRESETS[name]))
    metric.update(maps[:2], truth[:2], torch.arange(2))
    metric.update(maps[[5, 5]], truth[[5, 5]], torch.tensor([5, 5]))
    assert (metric.compute(), len(metric.pairs())) == (before, rows)
    metric.update(maps[:1], truth[:1], torch.tensor([2**60]))  # the same values under another number are another scene
    assert len(metric.pairs()) == rows + rows // 7
    assert metric.pairs().scene[-1] == 2**60


def test_a_scene_answered_otherwise_the_second_time_counts_as_the_first():
    maps, truth = scenes(maps=4)
    metric = LocalisationScore("noprior")
    metric.update(maps, truth, torch.arange(7))
    before = metric.compute()
    metric.update(maps[:2, :1].flip(-1), truth[:2], torch.arange(2))
    assert metric.compute() == before


def test_forward_gives_the_figures_of_the_batch():
    maps, truth = scenes()
    metric = LocalisationScore()
    metric(maps[:4], truth[:4])
    batch = metric(maps[4:], truth[4:])
    assert batch["cap"].item() == pytest.approx(
        summarise_as(score(maps[4:], truth[4:], metric.preset), metric.preset)["cap"]
    )
    assert metric.pairs().scene.tolist() == [number for number in range(7) for _ in range(2)]


def test_reset_starts_over_and_nothing_is_an_error():
    metric = LocalisationScore()
    metric.update(*scenes())
    metric.reset()
    assert len(metric.pairs()) == 0
    with pytest.raises(DataError, match="No scene"), pytest.warns(UserWarning, match="before the ``update``"):
        metric.compute()


def test_without_torchmetrics_its_extra_is_named_when_a_metric_is_made(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    module = runpy.run_path(localisation_score.__file__)
    with pytest.raises(MissingExtraError, match="torchmetrics is not installed") as caught:
        module["LocalisationScore"]()
    assert "soundwhere[train]" in caught.value.remedy


# one scene handed out twice; in succession, at the seam between the processes; an idle process
SHARES = ([[0, 2, 4, 6], [1, 3, 5, 0]], [[0, 1, 2, 2, 3], [3, 4, 5, 6, 6]], [[0, 1, 2, 3, 4, 5, 6], []])


def _process(rank, store, folder):
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    maps, truth = scenes(maps=4)
    results = []
    for name in PRESETS:
        for share in SHARES:
            numbers = torch.tensor(share[rank], dtype=torch.long)
            metric = LocalisationScore(name)
            if len(numbers):
                metric.update(maps[numbers], truth[numbers], numbers)
            results.append(_found(metric))
            with metric.sync_context():
                assert metric.pairs().scene.unique().tolist() == list(range(7))
    metric = LocalisationScore()  # without numbers, every scene is another one
    metric.update(maps[rank::2], truth[rank::2])
    results.append(_found(metric))
    torch.save(results, folder / f"{rank}.pt")
    dist.destroy_process_group()


def _found(metric):
    return {name: value.item() for name, value in metric.compute().items()}


def test_two_processes_give_the_result_of_one(tmp_path, on_two_processes):
    alone = []
    for name in PRESETS:
        metric = LocalisationScore(name)
        metric.update(*scenes(maps=4))
        alone += [_found(metric)] * len(SHARES)
        assert _found(metric) == pytest.approx(summarise_as(score(*scenes(maps=4), PRESETS[name]), PRESETS[name]))
    metric = LocalisationScore()
    metric.update(*scenes(maps=4))
    alone.append(_found(metric))
    on_two_processes(_process, tmp_path / "store", tmp_path)
    for rank in range(2):
        assert torch.load(tmp_path / f"{rank}.pt", weights_only=True) == alone
