import numpy as np
import torch

from soundwhere.engine import strength
from soundwhere.engine.strength import fit_strength
from soundwhere.models.strength import StrengthHead

CHANNELS = 12


class Pairs:
    """Frames with one bright square, whose features say where it is in a code that has to be found out."""

    def __init__(self):
        rng = np.random.default_rng(0)
        self.code = rng.standard_normal((CHANNELS, 1, 1))

    def __len__(self):
        return 200

    def __getitem__(self, index):
        rng = np.random.default_rng([1, index])
        top, left = rng.integers(5, size=2)
        shown = np.zeros((1, 14, 14), np.float16)
        shown[:, 2 * top : 2 * top + 4, 2 * left : 2 * left + 4] = 1
        here = shown[:, ::2, ::2]
        return (self.code * here + 0.3 * rng.standard_normal((CHANNELS, 7, 7))).astype(np.float16), shown


def fitted(seed=0):
    torch.manual_seed(5)
    head, calls = StrengthHead(CHANNELS), []
    state = torch.get_rng_state()
    error = fit_strength(head, Pairs(), seed, lambda done, total: calls.append((done, total)))
    assert torch.equal(torch.get_rng_state(), state)  # the run around it goes on as if nothing had happened
    assert calls[-1] == (strength.STEPS, strength.STEPS)
    return head, error


def test_finds_the_thing_in_frames_it_was_not_fitted_to():
    head, error = fitted()
    assert error < 0.02
    assert not head.training
    assert head.fitted
    assert not StrengthHead(CHANNELS).fitted
    assert not any(parameter.requires_grad for parameter in head.parameters())
    features, shown = (np.stack(side) for side in zip(*(Pairs()[1000 + k] for k in range(20)), strict=True))
    with torch.no_grad():
        found = head(torch.from_numpy(features).float())
    expected = torch.from_numpy(shown[..., ::2, ::2]).float()
    assert found.shape == expected.shape
    assert ((found > 0.5) == (expected > 0.5)).float().mean() > 0.97


def test_the_same_seed_gives_the_same_head(monkeypatch):
    monkeypatch.setattr(strength, "STEPS", 20)
    one, other, different = fitted(1)[0], fitted(1)[0], fitted(2)[0]
    for name, value in one.state_dict().items():
        torch.testing.assert_close(value, other.state_dict()[name], rtol=0, atol=0)
    assert not torch.equal(one.layers[0].weight, different.layers[0].weight)
