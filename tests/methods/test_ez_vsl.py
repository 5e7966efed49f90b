from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch

from soundwhere.errors import ConfigError
from soundwhere.losses.max_cell import both_ways, max_cell_logits
from soundwhere.methods.ez_vsl import EZVSLConfig
from soundwhere.methods.projected import Projected, object_prior, with_objects
from soundwhere.methods.published import rename
from soundwhere.models.similarity import similarity_map

if TYPE_CHECKING:
    from collections.abc import Callable

TINY = EZVSLConfig(visual="tiny", audio="tiny", visual_weights="none", frame_px=64, dimension=16, maps="avl")


def projected(recording: Any) -> Projected:
    """A network with the recorded projections; its encoders are not used."""
    network = Projected(TINY).double()
    weights, unknown = rename(recording.weights(), Projected.published)
    assert not unknown
    seen, heard = (torch.nn.Conv2d(64, 32, 1), torch.nn.Linear(64, 32))
    network.project_visual, network.project_audio = seen.double(), heard.double()
    network.channels = (64, 64)
    network.load_state_dict(weights, strict=False)
    return network


def test_the_recording(oracle: Callable[[str], Any]) -> None:
    recording = oracle("ez_vsl")
    network = projected(recording)
    image, audio = recording.leaves("image_features", "audio_features")
    cells, sounds = network.cells(image), network.sounds(audio)
    logits = max_cell_logits(cells, sounds, 0.03)
    loss = both_ways(logits)
    recording.agree(
        image_embedding=cells,
        audio_embedding=sounds,
        map=network.compare(image, audio) / 0.03,
        logits=logits,
        loss=loss,
        object_prior=object_prior(image),
    )
    recording.agree_gradients(
        loss,
        grad_image_features=image,
        grad_audio_features=audio,
        grad_image_projection=network.project_visual.weight,
        grad_audio_projection=network.project_audio.weight,
    )


def test_maps_with_the_object_prior_by_hand() -> None:
    sound, prior = torch.tensor([[[0.0, 1.0], [0.5, 0.25]]]), torch.tensor([[[4.0, 2.0], [2.0, 2.0]]])
    mixed = 0.4 * sound + 0.6 * torch.tensor([[[1.0, 0.0], [0.0, 0.0]]])
    torch.testing.assert_close(with_objects(sound, prior, 0.4), (mixed - 0.1) / 0.5)
    torch.testing.assert_close(with_objects(sound, prior, 1.0), sound)


def test_the_prior_of_a_trained_eye_is_that_of_one_that_stayed() -> None:
    torch.manual_seed(0)
    network = Projected(EZVSLConfig(visual="tiny", audio="tiny", visual_weights="x.pth", frame_px=64, dimension=16))
    network.eval()
    image, sound = torch.randn(2, 3, 64, 64), torch.randn(2, 8000)
    seen, heard = network.see(image), network.hear(sound)
    assert seen.shape == (2, 129, 4, 4)
    assert network.objects is not None
    expected = network.objects(image).abs().mean(1)
    torch.testing.assert_close(network.prior(seen), expected)
    found = network.localise(seen, heard, 2)
    torch.testing.assert_close(
        found.similarity[:, 1], with_objects(network.compare(seen, heard), expected, 0.4), atol=1e-5, rtol=0
    )
    assert network.train().see(image).shape == (2, 128, 4, 4)  # nobody looks at it then
    assert not any(parameter.requires_grad for parameter in network.objects.parameters())


def test_a_prior_without_weights_is_refused() -> None:
    with pytest.raises(ConfigError, match="object prior"):
        EZVSLConfig(visual_weights="none")


def test_the_answer_is_the_cosine_of_projections() -> None:
    torch.manual_seed(0)
    network = Projected(TINY).eval()
    seen, heard = network.see(torch.randn(2, 3, 64, 64)), network.hear(torch.randn(2, 8000))
    expected = similarity_map(network.project_visual(seen), network.project_audio(heard))
    torch.testing.assert_close(network.answer(seen, heard).similarity[:, 0], expected)
