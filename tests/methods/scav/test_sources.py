from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from soundwhere.methods.scav.config import NAMED
from soundwhere.methods.scav.model import SCAV
from soundwhere.methods.scav.peeling import share_out
from soundwhere.models.similarity import normalise_range


@pytest.fixture(scope="module")
def model() -> SCAV:
    torch.manual_seed(0)
    return SCAV(NAMED["scav-tiny"]).eval()


@given(st.integers(2, 6), st.integers(0, 1000))
def test_shares_are_a_partition_of_the_picture(sources: int, seed: int) -> None:
    similarity = torch.rand(2, 3, 4, generator=torch.Generator().manual_seed(seed))
    shares = share_out(similarity, normalise_range, sources)
    assert shares.shape == (2, sources, 3, 4)
    assert shares.min() >= -1e-6
    torch.testing.assert_close(shares.sum(1), torch.ones(2, 3, 4))


def test_peaks_are_taken_one_after_another() -> None:
    """Three separate peaks of falling height: each of the first three shares is full on its own."""
    similarity = torch.zeros(1, 5, 5)
    peaks = [(0, 0), (2, 2), (4, 4)]
    for height, (row, column) in zip((0.9, 0.6, 0.3), peaks, strict=True):
        similarity[0, row, column] = height
    shares = share_out(similarity, lambda remaining: (remaining == remaining.amax((1, 2), keepdim=True)).float(), 4)
    for number, (row, column) in enumerate(peaks):
        assert shares[0, number].sum() == 1
        assert shares[0, number, row, column] == 1
    assert shares[0, 3].sum() == 22


@torch.inference_mode()
def test_two_sources_are_the_models_own_answer(model: SCAV) -> None:
    torch.manual_seed(1)
    features, heard = torch.rand(2, 128, 4, 5), torch.rand(2, 2, 128)
    own = model.answer(features, heard)
    found = model.localise(features, heard, 2)
    torch.testing.assert_close(found.similarity, own.similarity)
    one = model.localise(features, heard, 1)
    torch.testing.assert_close(one.similarity, own.similarity[:, :1])


@torch.inference_mode()
def test_each_source_is_a_branch_of_its_own_share(model: SCAV) -> None:
    """Against stage 2 called by hand for every share."""
    torch.manual_seed(2)
    features, heard = torch.rand(1, 128, 4, 5), torch.rand(1, 2, 128)
    found = model.localise(features, heard, 4)
    assert found.similarity.shape == (1, 4, 4, 5)
    assert found.embeddings.shape == (1, 4, 128)
    similarity = model.similarity(features, heard[:, 0])
    shares = share_out(similarity, lambda remaining: model.spatial_prior(remaining, features), 4)
    for number, (prior, branch) in enumerate([(shares[:, 0], 0), (shares[:, 1], 0), (shares[:, 2], 0)]):
        expected = model.branch_similarity(model.decouple(features, heard, prior))[:, branch]
        torch.testing.assert_close(found.similarity[:, number], expected)
    last = model.branch_similarity(model.decouple(features, heard, 1 - shares[:, 3]))[:, 1]
    torch.testing.assert_close(found.similarity[:, 3], last)


@pytest.mark.parametrize("maps", ["similarity", "presence", "shaped"])
@torch.inference_mode()
def test_whatever_a_model_makes_of_its_branches_is_made_of_peeled_ones(maps: str) -> None:
    torch.manual_seed(0)
    model = SCAV(replace(NAMED["scav-tiny"], maps=maps)).eval()
    features, heard = torch.rand(2, 128, 4, 5), torch.rand(2, 2, 128)
    own, found = model.answer(features, heard), model.localise(features, heard, 1)
    torch.testing.assert_close(found.similarity, own.similarity[:, :1])
    torch.testing.assert_close(found.confidence, own.confidence[:, :1])
    again = model.read(features, heard, model.decouple(features, heard, torch.rand(2, 4, 5)))
    assert not torch.allclose(again.similarity, own.similarity)
    prior = model.prior(features, heard)
    shared = model.read(features, heard, model.share(features, heard, model.stage_one_map(features, heard), 2))
    torch.testing.assert_close(vars(shared), vars(own))
    torch.testing.assert_close(vars(model.read(features, heard, model.decouple(features, heard, prior))), vars(own))


@torch.inference_mode()
def test_without_stage_two_peaks_are_grown_and_taken_away(model: SCAV) -> None:
    torch.manual_seed(3)
    alone = model.without_stage_two().eval()
    features, heard = torch.rand(2, 128, 4, 5), torch.rand(2, 2, 128)
    found = alone.localise(features, heard, 3)
    assert found.similarity.shape == (2, 3, 4, 5)
    assert (found.confidence[:, :-1] >= found.confidence[:, 1:]).all()
    assert found.embeddings.shape == (2, 3, 128)
