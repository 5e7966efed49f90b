import runpy

import pytest
import torch
import torch.distributed as dist

from soundwhere.errors import DataError, MissingExtraError
from soundwhere.metrics import localisation_score
from soundwhere.metrics.localisation_score import LocalisationScore
from soundwhere.metrics.presets import find_preset, score, summarise_as


def scenes(count=7):
    generator = torch.Generator().manual_seed(3)
    maps = torch.rand(count, 2, 3, 6, generator=generator)
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


def test_a_scene_handed_out_twice_counts_once():
    maps, truth = scenes()
    metric = LocalisationScore("noprior")
    metric.update(maps, truth, torch.arange(7))
    before = metric.compute()
    metric.update(maps[:2], truth[:2], torch.arange(2))
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


SHARES = ([[0, 2, 4, 6], [1, 3, 5, 0]], [[0, 1, 2, 3, 4, 5, 6], []])  # one scene handed out twice; an idle process


def _process(rank, store, folder):
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    maps, truth = scenes()
    results = []
    for share in SHARES:
        numbers = torch.tensor(share[rank], dtype=torch.long)
        metric = LocalisationScore()
        if len(numbers):
            metric.update(maps[numbers], truth[numbers], numbers)
        results.append({name: value.item() for name, value in metric.compute().items()})
        with metric.sync_context():
            assert metric.pairs().scene.unique().tolist() == list(range(7))
    torch.save(results, folder / f"{rank}.pt")
    dist.destroy_process_group()


def test_two_processes_give_the_result_of_one(tmp_path, on_two_processes):
    metric = LocalisationScore()
    metric.update(*scenes())
    alone = {name: value.item() for name, value in metric.compute().items()}
    on_two_processes(_process, tmp_path / "store", tmp_path)
    for rank in range(2):
        assert torch.load(tmp_path / f"{rank}.pt", weights_only=True) == [alone] * len(SHARES)
