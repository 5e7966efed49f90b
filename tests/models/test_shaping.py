import torch
from hypothesis import given
from hypothesis import strategies as st

from soundwhere.models.shaping import heard_under, shaped


@given(st.integers(0, 50))
def test_a_map_of_shares_that_follows_the_picture(seed):
    torch.manual_seed(seed)
    presence, features = torch.rand(2, 2, 4, 6), torch.randn(2, 5, 4, 6)
    maps = shaped(presence, features)
    assert 0 <= maps.min() <= maps.max() <= 1
    torch.testing.assert_close(shaped(presence.flip(-1), features.flip(-1)), maps.flip(-1))
    torch.testing.assert_close(shaped(presence, 7 * features), maps)  # how strong features are in general says nothing


def test_everywhere_present_is_the_feature_strength_and_nowhere_is_nothing():
    features = torch.randn(1, 5, 3, 3)
    strength = features.norm(dim=1) / features.norm(dim=1).max()
    torch.testing.assert_close(shaped(torch.ones(1, 2, 3, 3), features)[:, 0], strength)
    assert shaped(torch.zeros(1, 2, 3, 3), features).max() == 0


def test_a_gap_is_filled_and_the_background_beside_is_not():
    presence, features = torch.zeros(1, 1, 3, 7), torch.full((1, 1, 3, 7), 0.1)
    presence[..., 1:5] = 1
    presence[..., 1, 3] = 0  # a cell of the thing that was not recognised
    features[..., 1:5] = 1
    found = shaped(presence, features)[0, 0]
    assert found[1, 3] > 0.8
    assert found[1, 5] < 0.05


def test_confidence_is_the_similarity_where_the_map_is_and_nowhere_else():
    maps = torch.tensor([[[[0.2, 0.9], [0.5, 0.1]], [[0.0, 0.0], [0.3, 0.1]]]])
    similarity = torch.tensor([[[0.8, 0.3], [0.4, 0.7]]])
    torch.testing.assert_close(heard_under(maps, similarity), torch.tensor([[0.4, 0.4]]))
    torch.testing.assert_close(heard_under(maps, -similarity), torch.zeros(1, 2))
