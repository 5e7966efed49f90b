from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

from soundwhere.methods.dmc import DMC, DUET, METHOD, DMCConfig, distances, dmc_loss, soft_clusters

if TYPE_CHECKING:
    from collections.abc import Callable

SMALL: dict[str, Any] = {"visual": "tiny", "audio": "tiny", "frame_px": 64, "spectrogram": "mel"}


@pytest.mark.parametrize(("setting", "things", "sounds"), [("solo", 2, 1), ("duet", 3, 2)])
def test_the_recording(oracle: Callable[[str], Any], setting: str, things: int, sounds: int) -> None:
    recording = oracle("dmc")
    network = DMC(DMCConfig(**SMALL))
    network.fc_v_1, network.fc_a_1 = nn.Linear(32, 32), nn.Linear(32, 32)
    network.double().load_state_dict(recording.weights(), strict=False)
    image, audio = recording.leaves("image_features", "audio_map")
    pictures, heard = network.picture_clusters(image, things), network.sound_clusters(audio, sounds)
    apart = distances(pictures.centres, heard.centres)
    value = dmc_loss(pictures.centres, heard.centres, recording["label"])
    found = {
        "assignment": pictures.assignment.unflatten(2, (8, 8)),
        "visual_centres": pictures.centres,
        "audio_centres": heard.centres,
        "centre_distances": apart,
        "distance": apart.amin(1),
        "loss": value,
    }
    recording.agree(**{f"{setting}_{name}": tensor for name, tensor in found.items()})
    gradients = {f"{setting}_grad_image_features": image, f"{setting}_grad_audio_map": audio}
    recording.agree_gradients(value, **gradients)
    # the map of a source is the assignment to the nearest visual cluster
    maps = network.match(image, audio, sounds, things).similarity
    nearest = recording[f"{setting}_centre_distances"].argmin(1)
    for item in range(6):
        torch.testing.assert_close(
            maps[item], recording[f"{setting}_assignment"][item, nearest[item]], atol=1e-6, rtol=1e-6
        )


def test_two_heaps_are_found() -> None:
    generator = torch.Generator().manual_seed(0)
    heaps = torch.tensor([[0.0, 0.0], [10.0, 10.0]])
    order = torch.arange(40) % 2
    cells = (heaps[order] + 0.1 * torch.randn(40, 2, generator=generator))[None]
    found = soft_clusters(torch.cat([cells[:, ::2], cells[:, 1::2]], dim=1), 2)
    torch.testing.assert_close(found.centres[0], heaps, atol=0.1, rtol=0)
    torch.testing.assert_close(found.assignment.sum(1), torch.ones(1, 40))
    assert found.assignment[0, 0, :20].min() > 0.99


def test_equal_cells_give_a_loss_and_gradients() -> None:
    cells = torch.ones(2, 9, 4, requires_grad=True)
    found = soft_clusters(cells, 3)
    dmc_loss(found.centres, found.centres, torch.tensor([1.0, 0.0])).backward()
    assert cells.grad is not None
    assert cells.grad.isfinite().all()


def test_it_gives_a_map_for_each_of_any_number_of_sounds() -> None:
    torch.manual_seed(0)
    network = DMC(replace(DUET, **SMALL)).eval()
    assert network.sources == 2
    seen, heard = network.see(torch.randn(2, 3, 64, 64)), network.hear(torch.randn(2, 8000))
    assert network.localise(seen, heard).similarity.shape == (2, 2, 4, 4)
    found = network.localise(seen, heard, 3)
    assert found.similarity.shape == (2, 3, 4, 4)
    assert found.similarity.min() >= 0
    assert found.similarity.max() <= 1
    assert found.confidence.shape == (2, 3)


@pytest.mark.parametrize(("config", "sounds"), [(DMCConfig(), 1), (DUET, 2), (replace(DUET, sound_clusters=3), 3)])
def test_it_trains_on_as_many_sounds_as_it_assumes(config: DMCConfig, sounds: int) -> None:
    (stage,) = METHOD.stages(config)
    assert stage.phases[-1].needs.sounds == sounds
