from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch.nn import functional as F

from soundwhere.config import Thresholds
from soundwhere.errors import ConfigError
from soundwhere.losses.contrastive import infonce_loss
from soundwhere.methods.noprior.identification import (
    BACKGROUND,
    Rules,
    distances_between,
    group,
    identify,
    object_loss,
    object_maps,
)
from soundwhere.methods.noprior.model import FlowAttention, NoPrior, NoPriorConfig, losses, signals
from soundwhere.types import Batch

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TINY = NoPriorConfig(visual="tiny", audio="tiny", visual_weights="none", freeze_visual=False, frame_px=64)


def attention(recording: Any) -> FlowAttention:
    module = FlowAttention(64, flow=True).double()
    module.load_state_dict(recording.weights())
    return module


def test_the_recorded_training(oracle: Callable[[str], Any]) -> None:
    recording = oracle("noprior")
    leaves = image, flow, audio = recording.leaves("image_features", "flow_features", "audio_features")
    cells, sound = attention(recording)(image, flow), F.normalize(audio, dim=1)
    loud, similarity, background = signals(cells, sound, Thresholds())
    found = identify(loud, similarity, background, 0.1)
    groups = torch.tensor([group(*pair, Rules()) for pair in zip(found.vectors, background, strict=True)])
    contrast, objects = losses(cells, sound, Thresholds(), Rules())
    grid = (4, -1, 7, 7)
    to_background = F.pairwise_distance(loud, background[:, None]).reshape(4, 1, 7, 7)
    distances = distances_between(loud).gather(2, found.seeds[:, None].expand(-1, 49, -1)).transpose(1, 2)
    assert torch.equal(found.seeds, recording["seeds"])
    assert torch.equal(found.joined.reshape(grid), recording["cell_masks"])
    assert torch.equal(groups, recording["object_group"])
    recording.agree(
        attended=cells,
        similarity=similarity.reshape(4, 7, 7),
        negative_mask=torch.sigmoid((0.4 - similarity.reshape(4, 7, 7)) / 0.03),
        background=background,
        object_vectors=found.vectors,
        distance_to_seed=distances.reshape(grid),
        distance_to_background=to_background.expand(-1, found.seeds.shape[1], -1, -1),
        loss_lvs=contrast,
        loss_object=objects,
        loss=contrast + objects,
    )
    recording.agree_gradients(
        contrast + objects,
        **dict(zip(("grad_image_features", "grad_flow_features", "grad_audio_features"), leaves, strict=True)),
    )


@pytest.mark.parametrize("name", ["test0", "test1", "test2", "test3", "tall", "clean0", "clean1"])
def test_the_recorded_inference(name: str, oracle: Callable[[str], Any]) -> None:
    """All four scenes of the batch at once for each of them: what others need must not change an answer."""
    recording = oracle("noprior")
    place = int(name[-1]) if name.startswith("test") else 0
    prefix = "" if name.startswith("test") else f"{name}_"
    sound = recording["audio_features" if not prefix else f"{prefix}audio_unit"]
    network = NoPrior(TINY)
    cells = attention(recording)(recording[f"{prefix}image_features"], recording[f"{prefix}flow_features"])
    network.attend = lambda seen: cells  # type: ignore[method-assign]
    found = network.every_object(cells, sound)[place]
    recording.agree(**{f"{name}_maps": found.maps})
    loud, similarity, background = signals(cells, F.normalize(sound, dim=1), Thresholds())
    if prefix:
        recording.agree(**{f"{prefix}similarity": similarity[0].reshape(cells.shape[2:])})
    every = identify(loud, similarity, background, 0.1)
    real = every.vectors[place].any(-1)
    assert torch.equal(every.seeds[place][real], recording[f"{name}_seeds"])
    expected = recording[f"{name}_cell_masks"]
    assert torch.equal(every.joined[place][real].reshape(expected.shape), expected)
    assert group(every.vectors[place][real], background[place], Rules()) == recording[f"{name}_group"].tolist()


def test_object_loss_term_by_term() -> None:
    generator = torch.Generator().manual_seed(0)
    vectors, background = torch.randn(2, 5, 4, generator=generator), torch.randn(2, 4, generator=generator)
    vectors[1, 3:] = 0  # this scene was finished earlier
    groups = torch.tensor([[2, -1, 2, 3, 3], [0, 1, 1, 3, 4]])
    total = 0.0
    for scene in range(2):
        for key in {int(number) for number in groups[scene]} - {BACKGROUND}:
            if not vectors[scene, key].any():
                continue
            own = vectors[scene][groups[scene] == key].mean(0)
            others = vectors[scene][groups[scene] != key].mean(0) + background[scene]
            e = vectors[scene, key]
            total += 1 - float(F.cosine_similarity(e, own, dim=0)) + float(F.cosine_similarity(e, others, dim=0))
    assert float(object_loss(vectors, background, groups)) == pytest.approx(total / 2, rel=1e-5)


def test_one_group_alone_has_nothing_to_be_pushed_from() -> None:
    vectors = torch.randn(1, 3, 4, requires_grad=True)
    value = object_loss(vectors, torch.randn(1, 4), torch.tensor([[2, 2, 2]]))
    assert value.item() == 0
    value.backward()
    assert torch.isfinite(vectors.grad).all()


def test_even_attention_is_that_of_flow_that_is_the_same_everywhere() -> None:
    torch.manual_seed(0)
    guided = FlowAttention(16, flow=True)
    even = FlowAttention(16, flow=False)
    even.load_state_dict({name: value for name, value in guided.state_dict().items() if name.startswith("value")})
    features = torch.randn(2, 16, 3, 4)
    constant = torch.randn(2, 16, 1, 1).expand(-1, -1, 3, 4)
    torch.testing.assert_close(even(features), guided(features, constant))


def scene(*objects: tuple[slice, int]) -> tuple[torch.Tensor, torch.Tensor]:
    """Features of 12 x 4 cells with things of their own direction, which all resemble the sound a little."""
    sound = F.normalize(torch.tensor([1.0, 1.0, 1.0, 0.0]), dim=0)
    features = torch.tensor([0.0, 0.0, 0.05, 1.0])[:, None, None].expand(-1, 12, 4).clone()
    for rows, direction in objects:
        features[:, rows, 1:3] = (torch.eye(4)[direction] + 0.2 * sound)[:, None, None]
    return features[None], sound[None]


@pytest.mark.parametrize("count", [1, 2, 3])
def test_as_many_objects_are_found_as_there_are(count: int) -> None:
    features, sound = scene(*((slice(4 * number, 4 * number + 3), number) for number in range(count)))
    network = NoPrior(NoPriorConfig(visual="tiny", audio="tiny", visual_weights="none", frame_px=64, flow="none"))
    (found,) = network.every_object(features, sound)
    assert len(found.maps) == count
    for number, one in enumerate(found.maps):
        peak = divmod(int(one.argmax()), 4)[0]
        assert any(peak in range(4 * place, 4 * place + 3) for place in range(count))
        assert len({int(each.argmax()) // 16 for each in found.maps}) == count, number
    padded = network.localise(features, sound, 3)
    assert (padded.similarity[0, count:] == 0).all()
    assert (padded.confidence[0, count:] == 0).all()
    assert (padded.confidence[0, :count] > 0.4).all()
    assert network.localise(features, sound).similarity.shape == (1, 2, 12, 4)
    torch.testing.assert_close(network.localise(features, sound, 1).similarity, padded.similarity[:, :1])


def test_maps_of_iterations_come_in_their_order() -> None:
    features, sound = scene((slice(0, 3), 0), (slice(6, 9), 1))
    config = NoPriorConfig(
        visual="tiny", audio="tiny", visual_weights="none", frame_px=64, flow="none", reading="iterations"
    )
    (found,) = NoPrior(config).every_object(features, sound)
    cells, similarity, background = signals(F.normalize(features, dim=1), sound, Thresholds())
    every = identify(cells, similarity, background, 0.1)
    assert len(found.maps) == every.vectors[0].any(-1).sum()
    first = -torch.linalg.vector_norm(cells[0] - every.vectors[0, 0], dim=1)
    torch.testing.assert_close(found.maps[0].flatten(), first, atol=1e-3, rtol=0)


def test_nothing_found_is_an_empty_map() -> None:
    assert object_maps(torch.ones(2, 5), [BACKGROUND, BACKGROUND]).shape == (0, 5)


def test_published_mixing_is_the_mean_of_spectrograms() -> None:
    from soundwhere.methods.noprior import model

    torch.manual_seed(0)
    network = NoPrior(TINY).eval()
    solos = torch.randn(2, 2, 22_050) / 10
    batch = Batch(solos.sum(1), torch.randn(2, 3, 64, 64), solos=solos)
    spectrogram = network.spectrogram(solos.flatten(0, 1)).reshape(2, 2, 1, 257, -1).mean(1)
    with torch.no_grad():
        cells, sound = network.attend(network.see(batch.image)), F.normalize(network.embed(spectrogram), dim=1)
        expected = infonce_loss(cells, sound, Thresholds())
        torch.testing.assert_close(model.loss(network, batch)["contrast"], expected)


def test_encoders_of_different_widths_are_refused() -> None:
    with pytest.raises(ConfigError, match="tiny has 128 channels and resnet18 has 512"):
        NoPrior(NoPriorConfig(visual="tiny", frame_px=64))


def test_it_is_not_exported(tmp_path: Path) -> None:
    pytest.importorskip("onnxscript")
    pytest.importorskip("onnxruntime")
    from soundwhere.inference.export import export_onnx

    with pytest.raises(ConfigError, match="as many iterations as a scene needs"):
        export_onnx(NoPrior(TINY).eval(), tmp_path / "noprior.onnx")
    assert not (tmp_path / "noprior.onnx").exists()
