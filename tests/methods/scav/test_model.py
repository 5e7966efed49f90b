"""From (image, spectrogram) to two maps in one pass, for every named configuration and every switch."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import torch

from soundwhere.methods.catalogue import named_config
from soundwhere.methods.files import write_model
from soundwhere.methods.scav.config import NAMED, SCAVConfig
from soundwhere.methods.scav.model import SCAV
from soundwhere.types import Batch, Localisation

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def inputs(height: int = 64, width: int = 96, samples: int = 2) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return (
        torch.randn(samples, 3, height, width, generator=generator),
        torch.randn(samples, 1, 552, 24, generator=generator),
    )


@pytest.fixture(scope="module", params=list(NAMED))
def named(request: pytest.FixtureRequest) -> SCAV:
    """Each named model, with a decoupler of one layer."""
    torch.manual_seed(0)
    config = named_config(request.param)
    return SCAV(replace(config, decoupler_layers=1)).eval()


@torch.no_grad()
@pytest.mark.parametrize("size", [(32, 32), (64, 96)])
def test_one_pass_gives_two_maps(named: SCAV, size: tuple[int, int]) -> None:
    found = named(*inputs(*size))
    grid = (size[0] // named.visual.stride, size[1] // named.visual.stride)
    assert found.similarity.shape == (2, 2, *grid)
    assert found.similarity.abs().max() <= 1 + 1e-5
    assert found.confidence.shape == (2, 2)
    assert 0 <= found.confidence.min() <= found.confidence.max() <= 1
    if named.config.maps != "shaped":  # a shape says where something is, not how surely
        torch.testing.assert_close(found.confidence, found.similarity.flatten(2).amax(2).clamp(0, 1))
    assert found.embeddings.shape == (2, 2, named.config.dimension)
    heatmaps = found.heatmaps(size)
    assert heatmaps.shape == (2, 2, *size)
    assert heatmaps.min() >= 0
    assert heatmaps.max() <= 1


def test_dimensions_are_those_of_the_paper_and_of_the_mobile_model() -> None:
    assert {name: config.dimension for name, config in NAMED.items()} == {
        "scav-r18": 512,
        "scav-mobile": 256,
        "scav-tiny": 128,
    }


@torch.no_grad()
def test_the_mobile_models_stage_one_compares_1280_values() -> None:
    model = SCAV(replace(named_config("scav-mobile"), decoupler_layers=1)).eval()
    image, spectrogram = inputs()
    embedding = model.audio(spectrogram)
    assert embedding.shape == (2, 1280)
    assert embedding.min() >= 0
    assert model.see(image).shape[1] == 1280
    assert model.similarity(model.see(image), embedding).min() >= 0


def test_the_mobile_model_takes_less_than_25_mb(tmp_path: Path) -> None:
    path = tmp_path / "mobile.safetensors"
    write_model(path, SCAV(named_config("scav-mobile")), half=True)
    assert path.stat().st_size < 25e6


@torch.no_grad()
def test_a_uniform_prior_with_shared_weights_gives_two_equal_maps(tiny: SCAVConfig) -> None:
    found = SCAV(replace(tiny, prior="uniform")).eval()(*inputs())
    torch.testing.assert_close(found.similarity[:, 0], found.similarity[:, 1])
    other = SCAV(tiny).eval()(*inputs())
    assert (other.similarity[:, 0] - other.similarity[:, 1]).abs().max() > 1e-4


@torch.no_grad()
def test_priors_by_name(tiny: SCAVConfig) -> None:
    model = SCAV(tiny).eval()
    features, similarity = torch.rand(2, 128, 3, 4), torch.rand(2, 3, 4)
    priors = {}
    for name in ("algorithm1", "minmax", "uniform"):
        model.config = replace(tiny, prior=name)
        priors[name] = model.spatial_prior(similarity, features)
    model.config = replace(tiny, prior_features="raw")
    priors["raw"] = model.spatial_prior(similarity, features)
    assert (priors["uniform"] == 0.5).all()
    torch.testing.assert_close(priors["minmax"].flatten(1).argsort(1), similarity.flatten(1).argsort(1))
    assert (priors["raw"] - priors["algorithm1"]).abs().max() > 1e-3
    for prior in priors.values():
        assert prior.shape == similarity.shape
        assert 0 <= prior.min() <= prior.max() <= 1


@torch.no_grad()
def test_without_stage_two_there_is_one_map(tiny: SCAVConfig) -> None:
    both = SCAV(tiny).eval()
    alone = both.without_stage_two().eval()
    found = alone(*inputs())
    assert (alone.sources, both.sources) == (1, 2)
    assert found.similarity.shape == (2, 1, 4, 6)
    image, spectrogram = inputs()
    torch.testing.assert_close(found.similarity[:, 0], both.similarity(both.see(image), both.audio(spectrogram)))
    assert not any("decoupler" in name or "project" in name for name in alone.state_dict())


@torch.no_grad()
def test_every_way_to_ask_gives_the_same_answer(tiny: SCAVConfig, make_batch: Callable[..., Batch]) -> None:
    model, batch = SCAV(tiny).eval(), make_batch()
    assert batch.image is not None
    spectrogram, seen, heard = model.spectrogram(batch.mixture), model.see(batch.image), model.hear(batch.mixture)
    whole = model(batch.image, spectrogram)
    prior = model.prior(seen, heard)
    for answer in (
        model.answer(seen, heard),
        model.localise(seen, model.embed(spectrogram)),
        model.localise(model.seen(batch), heard, sources=2),
        model.localise(model.seen(Batch(batch.mixture, features=seen)), heard),
        model.read(seen, heard, model.decouple(seen, heard, prior)),
        Localisation(*model.split(seen, heard, prior)[1:]),
    ):
        torch.testing.assert_close(vars(answer), vars(whole), rtol=0, atol=0)
    with pytest.raises(ValueError, match="pictures or their features"):
        model.seen(Batch(batch.mixture))


@torch.no_grad()
def test_stage_twos_own_ears_start_as_those_of_stage_one(tiny: SCAVConfig) -> None:
    model = SCAV(replace(tiny, second_audio_encoder=True)).eval()
    _, spectrogram = inputs()
    before = model.embed(spectrogram)
    assert (before[:, 0] - before[:, 1]).abs().max() > 1e-4
    model.begin_stage_two()
    after = model.embed(spectrogram)
    torch.testing.assert_close(after[:, 0], after[:, 1])
    torch.testing.assert_close(after[:, 0], before[:, 0])


@torch.no_grad()
def test_projections_start_from_one_orthonormal_matrix(tiny: SCAVConfig) -> None:
    model = SCAV(tiny)
    weight = model.project_audio.weight
    torch.testing.assert_close(weight @ weight.T, torch.eye(16), rtol=0, atol=1e-5)
    torch.testing.assert_close(model.project_visual.weight[..., 0, 0], weight)


def test_max_pooling_is_reachable(tiny: SCAVConfig) -> None:
    torch.manual_seed(0)
    average = SCAV(tiny).eval()
    strongest = SCAV(replace(tiny, pooling="max")).eval()
    strongest.load_state_dict(average.state_dict())
    _, spectrogram = inputs()
    assert (strongest.audio(spectrogram) >= average.audio(spectrogram)).all()


@pytest.mark.parametrize("frozen", [True, False])
def test_a_frozen_encoder_gets_no_gradient_even_if_asked_to(tiny: SCAVConfig, frozen: bool) -> None:
    model = SCAV(replace(tiny, freeze_visual=frozen)).requires_grad_(True)
    model(*inputs(samples=2)).similarity.sum().backward()
    reached = [parameter.grad is not None for parameter in model.visual.parameters()]
    assert not any(reached) if frozen else all(reached)
    assert all(parameter.grad is not None for parameter in model.visual_decouplers.parameters())


def test_presence_is_the_similarity_as_the_distilled_maps_are_read(
    tiny: SCAVConfig, make_batch: Callable[..., Batch]
) -> None:
    torch.manual_seed(0)
    batch = make_batch()
    raw, shown = SCAV(tiny).eval(), SCAV(replace(tiny, maps="presence")).eval()
    shown.load_state_dict(raw.state_dict())
    with torch.no_grad():
        before, after = (model.localise(model.seen(batch), model.hear(batch.mixture)) for model in (raw, shown))
    middle = (tiny.thresholds.positive + tiny.thresholds.negative) / 2
    torch.testing.assert_close(after.similarity, 1 / (1 + torch.exp((middle - before.similarity) / 0.1)))
    torch.testing.assert_close(after.confidence, after.similarity.amax((2, 3)))
    torch.testing.assert_close(after.embeddings, before.embeddings)
