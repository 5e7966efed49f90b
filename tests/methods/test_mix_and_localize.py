from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from soundwhere.errors import ConfigError
from soundwhere.losses.cycle import best_cells, cycle_accuracy, cycle_loss, log_returns
from soundwhere.methods.mix_and_localize import (
    PATIENCE,
    CycleObjective,
    MixAndLocalize,
    MixAndLocalizeConfig,
    likeness,
    loss,
)
from soundwhere.methods.published import rename
from soundwhere.types import Batch

if TYPE_CHECKING:
    from collections.abc import Callable

TINY = MixAndLocalizeConfig(
    visual="tiny", audio="tiny", visual_weights="none", fine_grid=False, frame_px=64, dimension=16, batch_size=4
)


def batch(clips: int = 4) -> Batch:
    torch.manual_seed(0)
    now, later = torch.randn(2, clips, 22_050) / 10
    return Batch(now, torch.randn(clips, 3, 64, 64), moments=later[:, None, None])


def test_the_recording(oracle: Callable[[str], Any]) -> None:
    recording = oracle("mix_and_localize")
    network = MixAndLocalize(TINY)
    network.cells = nn.Sequential(nn.Conv2d(64, 128, 1), nn.ReLU(), nn.Conv2d(128, 128, 1))
    network.heads = nn.ModuleList(nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128)) for _ in range(2))
    weights, unknown = rename(recording.weights(), MixAndLocalize.published)
    assert not unknown
    network.double().load_state_dict(weights, strict=False)

    image, audio = recording.leaves("image_features", "audio_map")
    cells, sources = network.project(image), network.separate(audio.amax((2, 3)))
    returns = log_returns(cells.reshape(3, 2, *cells.shape[1:]), sources[3:], sources[:3], 0.07)
    factor = recording.weights()["conv_av.weight"].item()
    every = factor * torch.einsum("ndhw,md->nmhw", cells, sources.flatten(0, 1))
    own = torch.arange(6)
    recording.agree(
        image_embedding=cells,
        source_embeddings=sources,
        loss=cycle_loss(returns),
        cycle_accuracy=cycle_accuracy(returns),
        similarity_all=every,
        map=torch.cat([every[own, own], every[own, 6 + own]]),
    )
    recording.agree_gradients(
        cycle_loss(returns),
        grad_image_features=image,
        grad_audio_map=audio,
        grad_conv_v_2=network.cells[2].weight,
        grad_fc_a_1_2=network.heads[0][2].weight,
        grad_fc_a_2_2=network.heads[1][2].weight,
    )
    # the network's own maps are the recorded ones of a mixture and its picture, without the factor
    found = network.answer(image[:3], sources[:3]).similarity
    torch.testing.assert_close(found[1, 1] * factor, every[1, 3])


def test_walks_end_somewhere_and_those_of_clear_sources_at_home() -> None:
    generator = torch.Generator().manual_seed(1)
    pictures = F.normalize(torch.randn(3, 2, 8, 4, 5, generator=generator), dim=2)
    sources = F.normalize(torch.randn(2, 3, 2, 8, generator=generator), dim=-1)
    returns = log_returns(pictures, *sources, 0.07)
    torch.testing.assert_close(returns.exp().sum(-1), torch.ones(3, 2))
    to_picture = (best_cells(pictures, sources[0]) / 0.07).softmax(1).transpose(1, 2)
    to_source = (best_cells(pictures, sources[1]) / 0.07).softmax(2)
    torch.testing.assert_close(returns.exp(), to_picture @ to_source)
    clear = pictures[:, :, :, 0, 0]  # each source is the first cell of a picture
    home = log_returns(pictures, clear, clear, 0.01)
    assert cycle_accuracy(home) == 1
    assert cycle_loss(home) < 1e-3
    alike = log_returns(pictures, clear[:, :1].expand(-1, 2, -1), clear[:, :1].expand(-1, 2, -1), 0.07)
    assert cycle_loss(alike) == pytest.approx(math.log(2))


def test_groups_are_neighbours_summed_and_the_second_moment_leads_the_walk() -> None:
    network, clips = MixAndLocalize(TINY).eval(), batch()
    with torch.no_grad():
        found = loss(network, clips)["loss"]
        sums = [sounds.reshape(2, 2, -1).sum(1) for sounds in (clips.mixture, clips.moments[:, 0, 0])]
        cells = network.project(network.see(clips.image)).reshape(2, 2, 16, 4, 4)
        expected = cycle_loss(log_returns(cells, network.hear(sums[1]), network.hear(sums[0]), 0.07))
    torch.testing.assert_close(found, expected)
    with torch.no_grad():  # a clip without a partner is left out
        torch.testing.assert_close(loss(network, batch(5)[:4])["loss"], loss(network, batch(5))["loss"])


def test_likeness_is_a_mean_of_cosines() -> None:
    heads = F.normalize(torch.randn(5, 3, 7, generator=torch.Generator().manual_seed(0)), dim=-1)
    between = [float(heads[g, i] @ heads[g, j]) for g in range(5) for i in range(3) for j in range(3) if i != j]
    over = [float(heads[g, i] @ heads[h, i]) for i in range(3) for g in range(5) for h in range(5) if g != h]
    found = likeness(heads)
    assert float(found["heads_alike"]) == pytest.approx(sum(between) / len(between), abs=1e-6)
    assert float(found["mixtures_alike"]) == pytest.approx(sum(over) / len(over), abs=1e-6)


def test_collapse_is_warned_of_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("soundwhere.methods.mix_and_localize.PATIENCE", 3)
    network, clips = MixAndLocalize(TINY), batch()
    network.heads[1].load_state_dict(network.heads[0].state_dict())  # both heads say the same
    objective = CycleObjective(network)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        objective(clips), objective(clips)
    with pytest.warns(UserWarning, match=r"collapsed: for 3 steps its heads have been alike \(cosine 1\.00\)"):
        objective(clips)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        objective(clips)
    assert PATIENCE == 100


def test_batches_without_groups_are_refused() -> None:
    with pytest.raises(ConfigError, match="multiple of the 2 heads"):
        MixAndLocalizeConfig(batch_size=5)
    with pytest.raises(ConfigError, match="A group of 2 clips") as caught:
        loss(MixAndLocalize(TINY), batch(1))
    assert "--accumulate" in caught.value.remedy
    with pytest.raises(ConfigError, match="map for each source"):
        MixAndLocalize(MixAndLocalizeConfig(visual="tiny", audio="tiny", fine_grid=False, frame_px=64, queries="solo"))
