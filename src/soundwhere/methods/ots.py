"""OTS: do this picture and this sound belong together? AVE-Net asks of the whole picture, AVOL-Net of every cell.

Arandjelović and Zisserman, Objects that Sound, ECCV 2018. There is no official code; the heads are those of
github.com/rohitrango/objects-that-sound (AVE-Net) and github.com/kyuyeonpooh/objects-that-sound (AVOL-Net). Deviations:
pairs that do not match are of another clip, not of another class, so that no label is read; Adam instead of SGD for
AVE-Net in the controlled configuration. AVE-Net makes no map: here its head is asked about every cell as if it were
the whole picture.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import torch
from torch import nn
from torch.nn import functional as F

from soundwhere.config import require_least, require_positive
from soundwhere.losses.pairs import with_strangers
from soundwhere.methods.single_stage import SingleStageMethod
from soundwhere.methods.two_encoders import TwoEncoders, TwoEncodersConfig, one_map, pool
from soundwhere.models.encoders.norm import SynchronisedBatchNorm1d

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

    from soundwhere.types import Batch, Localisation


@dataclass(frozen=True)
class OTSConfig(TwoEncodersConfig):
    """The defaults are AVOL-Net as published; `ots-ave` is AVE-Net."""

    family: Literal["ots"] = "ots"
    name: str = "ots"
    head: Literal["avol", "ave"] = "avol"
    """AVOL-Net, which localises, or AVE-Net, which does not."""
    visual: str = "plain"
    audio: str = "plain"
    visual_weights: str = "none"
    """Weights the visual encoder starts from: `imagenet`, a file, or `none`."""
    spectrogram: str = "ots"
    dimension: int = 128
    """Size of the space in which cells and sounds are compared."""
    batch_size: int = 64
    learning_rate: float = 5e-5
    weight_decay: float = 1e-5
    fall: float = 0.94
    """What the learning rate is multiplied by, again and again."""
    fall_every: int = 36_000
    """After so many steps, 16 epochs of VGGSound's 144,000 clips; 0 for never."""

    training: ClassVar[frozenset[str]] = TwoEncodersConfig.training | {"fall", "fall_every"}

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(self, "fall")
        require_least(0, self, "fall_every")


class AVOLNet(TwoEncoders):
    """The probability of every cell to be where the sound comes from: sigma(w <cell, sound> + c)."""

    config: OTSConfig
    published: ClassVar[Mapping[str, str]] = {
        "icn.": "visual.",
        "acn.": "audio.",
        **{f"{part}.": f"{part}." for part in ("im_conv5", "im_conv6", "aud_fc1", "aud_fc2", "fus_conv7")},
    }

    def __init__(self, config: OTSConfig) -> None:
        super().__init__(config)
        (seen, heard), size = self.channels, config.dimension
        self.im_conv5, self.im_conv6 = nn.Conv2d(seen, size, 1), nn.Conv2d(size, size, 1)
        self.aud_fc1, self.aud_fc2 = nn.Linear(heard, size), nn.Linear(size, size)
        self.fus_conv7 = nn.Conv2d(1, 1, 1)

    def cells(self, seen: Tensor) -> Tensor:
        """Codes of cells, shape (B, D, h, w), of any length."""
        codes: Tensor = self.im_conv6(self.im_conv5(seen))
        return codes

    def sounds(self, heard: Tensor) -> Tensor:
        """Codes of pooled sounds (B, C'), shape (B, D), of any length."""
        codes: Tensor = self.aud_fc2(self.aud_fc1(heard).relu())
        return codes

    def scores(self, cells: Tensor, sounds: Tensor) -> Tensor:
        """Log-odds of every cell, shape (B, h, w)."""
        odds: Tensor = self.fus_conv7(torch.einsum("bdhw,bd->bhw", cells, sounds)[:, None])
        return odds[:, 0]

    def answer(self, seen: Tensor, heard: Tensor) -> Localisation:
        """The probability of every cell, in [0, 1]."""
        sounds = self.sounds(heard)
        return one_map(self.scores(self.cells(seen), sounds).sigmoid(), sounds)


class AVENet(TwoEncoders):
    """The probability that a picture and a sound belong together, from the distance of their codes."""

    config: OTSConfig
    published: ClassVar[Mapping[str, str]] = {
        **{
            f"{net}.{theirs}.": f"{ours}.{name}."
            for net, ours in (("imgnet", "visual"), ("audnet", "audio"))
            for number in range(1, 5)
            for place in (1, 2)
            for theirs, name in (
                (f"cnn{2 * number + place - 2}", f"conv{number}_{place}"),
                (f"bat{number}{place - 1}", f"bn{number}_{place}"),
            )
        },
        **{f"{part}.": f"{part}." for part in ("vfc1", "vfc2", "vl2norm", "afc1", "afc2", "al2norm", "fc3")},
    }

    def __init__(self, config: OTSConfig) -> None:
        super().__init__(config)
        (seen, heard), size = self.channels, config.dimension
        self.vfc1, self.vfc2 = nn.Linear(seen, size), nn.Linear(size, size)
        self.vl2norm = SynchronisedBatchNorm1d(size)
        self.afc1, self.afc2 = nn.Linear(heard, size), nn.Linear(size, size)
        self.al2norm = SynchronisedBatchNorm1d(size)
        self.fc3 = nn.Linear(1, 2)

    @property
    def note(self) -> str:
        """How a network without a map gives one."""
        return f"{super().note}, head asked at every cell"

    def looks(self, seen: Tensor) -> Tensor:
        """Codes of features (B, C), shape (B, D)."""
        codes: Tensor = self.vl2norm(self.vfc2(self.vfc1(seen).relu()))
        return codes

    def sounds(self, heard: Tensor) -> Tensor:
        """Codes of pooled sounds (B, C'), shape (B, D)."""
        codes: Tensor = self.al2norm(self.afc2(self.afc1(heard).relu()))
        return codes

    def probability(self, looks: Tensor, sounds: Tensor) -> Tensor:
        """Of matching and of not matching, for codes (..., D), shape (..., 2)."""
        squared = (looks - sounds).square().mean(-1, keepdim=True)
        found: Tensor = self.fc3(squared).softmax(-1)
        return found

    def answer(self, seen: Tensor, heard: Tensor) -> Localisation:
        """The probability of matching, cell by cell, in [0, 1]."""
        sounds = self.sounds(heard)
        height, width = seen.shape[-2:]
        looks = self.looks(seen.flatten(2).transpose(1, 2).flatten(0, 1)).reshape(-1, height * width, sounds.shape[1])
        match = self.probability(looks, sounds[:, None])[..., 0]
        return one_map(match.reshape(-1, height, width), sounds)


def avol_loss(scores: Tensor, match: Tensor) -> Tensor:
    """Binary cross-entropy of the best cell of log-odds (B, h, w) with whether the pair matches (B,)."""
    return F.binary_cross_entropy_with_logits(scores.flatten(1).amax(1), match)


def ave_loss(probability: Tensor, match: Tensor) -> Tensor:
    """Cross-entropy of probabilities (B, 2), taken for logits as in the release, with whether the pair matches (B,)."""
    return F.cross_entropy(probability, 1 - match.long())


def loss(network: AVOLNet | AVENet, batch: Batch) -> dict[str, Tensor]:
    """Pairs that match, told from pairs that do not."""
    seen, heard = network.perceive(batch)
    if isinstance(network, AVENet):
        looks, sounds, match = with_strangers(network.looks(pool(seen, "max")), network.sounds(heard))
        return {"loss": ave_loss(network.probability(looks, sounds), match)}
    cells, sounds, match = with_strangers(network.cells(seen), network.sounds(heard))
    return {"loss": avol_loss(network.scores(cells, sounds), match)}


AVE = OTSConfig(name="ots-ave", head="ave", optimiser="sgd", learning_rate=2.5e-5, weight_decay=0.0, fall_every=0)

METHOD = SingleStageMethod(
    OTSConfig,
    lambda config: AVENet(config) if config.head == "ave" else AVOLNet(config),
    loss,
    others={AVE.name: AVE},
)
