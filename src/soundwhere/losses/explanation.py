"""Which of many pictures explains what is left of a sound once others have explained their share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import torch
from torch.nn import functional as F

if TYPE_CHECKING:
    from torch import Tensor

_NEVER: Final = -1e4  # a fit that explains nothing, a logit that weighs nothing
_CONTRAST: Final = 60.0  # twice that of whole sounds: beside another picture, one explains little more


def explanation_contrast(fits: Tensor, belongs: Tensor) -> Tensor:
    """Contrast of what each picture that sounds in a mixture adds to the others that do, with what silent ones would.

    A mixture is explained as well as its moments fit the best of some pictures, on the mean. Given all but one of those
    that sound, that one has to explain the mixture better than any picture that is silent: this is what is asked when
    two things are looked for that together explain a sound.

    Args:
        fits: How well N moments of M mixtures fit P pictures, shape (M, N, P).
        belongs: 1 where a picture sounds in a mixture, shape (M, P).

    Returns:
        A scalar; 0 if nothing sounds.
    """
    mixture, picture = belongs.nonzero(as_tuple=True)
    beside = (belongs[mixture] > 0) & (F.one_hot(picture, belongs.shape[1]) == 0)  # the others that sound, shape (K, P)
    fit = fits[mixture]
    rest = fit.masked_fill(~beside[:, None], _NEVER).amax(2, keepdim=True)
    explained = torch.maximum(fit, rest).mean(1).masked_fill(beside, _NEVER)
    losses = F.cross_entropy(_CONTRAST * explained, picture, reduction="sum")
    return losses / max(1, len(picture))
