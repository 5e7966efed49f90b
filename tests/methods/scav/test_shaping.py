import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from soundwhere.methods.scav.shaping import evidence, heard_under, shaped, shared


@given(st.integers(0, 50))
def test_a_map_of_shares_that_follows_the_picture(seed):
    torch.manual_seed(seed)
    presence, features, similarity = torch.rand(2, 2, 4, 6), torch.randn(2, 5, 4, 6), torch.rand(2, 4, 6)
    strength = 2 * torch.rand(2, 1, 4, 6) - 0.5
    maps = shaped(presence, features, strength, similarity)
    assert 0 <= maps.min() <= maps.max() <= 1
    mirrored = shaped(*(tensor.flip(-1) for tensor in (presence, features, strength, similarity)))
    torch.testing.assert_close(mirrored, maps.flip(-1))
    # neither how strong features are in general says anything, nor the order of the sources
    torch.testing.assert_close(shaped(presence, 7 * features, strength, similarity), maps)
    torch.testing.assert_close(shaped(presence.flip(1), features, strength, similarity), maps.flip(1))


def test_everywhere_present_is_the_strength_and_nowhere_is_nothing():
    features, strength, alike = torch.randn(1, 5, 3, 3), torch.rand(1, 1, 3, 3), torch.full((1, 3, 3), 0.5)
    torch.testing.assert_close(shaped(torch.ones(1, 2, 3, 3), features, strength, alike)[:, :1], strength)
    assert shaped(torch.zeros(1, 2, 3, 3), features, strength, alike).max() == 0


def test_a_gap_is_filled_and_the_background_beside_is_not():
    presence, features = torch.zeros(1, 1, 3, 7), torch.zeros(1, 2, 3, 7)
    presence[..., 1:5] = 1
    presence[..., 1, 3] = 0  # a cell of the thing that was not recognised
    features[:, 0, :, 1:5] = 1
    features[:, 1, :, [0, 5, 6]] = 0.1
    found = shaped(presence, features, features.norm(dim=1, keepdim=True), torch.full((1, 3, 7), 0.5))[0, 0]
    assert found[1, 3] > 0.8
    assert found[1, 5] < 0.05


def test_presence_is_shared_among_alike_cells_however_far_apart():
    rng = np.random.default_rng(0)
    presence, features = rng.random((1, 2, 2, 5)), rng.standard_normal((1, 4, 2, 5))
    cells = features.reshape(4, 10) / np.linalg.norm(features.reshape(4, 10), axis=0)
    expected = np.empty((2, 10))
    for cell in range(10):
        weights = np.exp(cells[:, cell] @ cells / 0.15)
        expected[:, cell] = presence.reshape(2, 10) @ weights / weights.sum()
    found = shared(torch.from_numpy(presence), torch.from_numpy(features))
    np.testing.assert_allclose(found.numpy().reshape(2, 10), expected)


def test_of_two_things_that_look_likely_the_one_that_is_heard_stays_brightest():
    presence = torch.zeros(1, 2, 7, 28)
    presence[:, 0, 2:5, 2:5] = 1  # the first source
    presence[:, 1, 2:5, 12:15] = 1  # the second, or ...
    presence[:, 1, 2:5, 22:25] = 1  # ... a thing that is only seen
    similarity = torch.full((1, 7, 28), 0.1)
    similarity[:, 3, 3], similarity[:, 3, 13], similarity[:, 3, 23] = 0.6, 0.4, 0.3
    features = torch.ones(1, 3, 7, 28)
    second = evidence(presence, similarity)[0, 1]
    assert second[3, 13] == 1  # the first source is stronger, and not its own
    torch.testing.assert_close(second[3, 23], torch.tensor(-0.8).exp())
    maps = shaped(presence, features, torch.ones(1, 1, 7, 28), similarity)
    assert maps[0, 1, 3, 13] > 1.5 * maps[0, 1, 3, 23]


def test_confidence_is_the_similarity_where_the_map_is_and_nowhere_else():
    maps = torch.tensor([[[[0.2, 0.9], [0.5, 0.1]], [[0.0, 0.0], [0.3, 0.1]]]])
    similarity = torch.tensor([[[0.8, 0.3], [0.4, 0.7]]])
    torch.testing.assert_close(heard_under(maps, similarity), torch.tensor([[0.4, 0.4]]))
    torch.testing.assert_close(heard_under(maps, -similarity), torch.zeros(1, 2))
