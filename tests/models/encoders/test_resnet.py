from __future__ import annotations

import torch

from soundwhere.models.encoders import build_audio, build_visual


def test_a_fine_one_has_four_times_the_cells_and_the_same_weights() -> None:
    torch.manual_seed(0)
    coarse, fine = build_visual("resnet18").eval(), build_visual("resnet18", fine=True).eval()
    assert (coarse.stride, fine.stride) == (32, 16)
    fine.load_state_dict(coarse.state_dict())
    picture = torch.randn(1, 3, 64, 96)
    with torch.no_grad():
        assert coarse(picture).shape == (1, 512, 2, 3)
        assert fine(picture).shape == (1, 512, 4, 6)
        assert build_audio("resnet18", fine=True).eval()(torch.randn(1, 1, 257, 276)).shape == (1, 512, 17, 18)


def test_what_cannot_be_finer_stays_as_it_is() -> None:
    assert build_visual("tiny", fine=True).stride == build_visual("tiny").stride
