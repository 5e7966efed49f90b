"""OA-SSL losses, captions given: what sounds should look like what captions say, and unlike the rest.

Um, Kim, Lee and Kim, Object-aware Sound Source Localization via Audio-Visual Scene Understanding, CVPR 2025
(arXiv 2506.18557); no code was published. A multimodal language model writes captions of the sounding and of the silent
things in every training picture; a text encoder turns them into vectors. Neither is part of this package: the vectors
are read from a file (see `data.captions`), and rows of a table say so. The losses OCA and ORI are added to a base
method, here stage 1 of SCAV, which is the contrast that NoPrior, the authors' own base, begins with. At test there are
no captions.

Deviations: weights, thresholds and the settings of Sinkhorn are ours, because the paper's are not known; captions are
brought to the width of the features by one linear layer; one map, as of the base.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path  # noqa: TC003 - configurations are read by their types
from typing import TYPE_CHECKING, ClassVar, Literal

from torch import nn
from torch.nn import functional as F

from soundwhere.config import Thresholds, require_least, require_positive
from soundwhere.data.captions import read_captions
from soundwhere.data.training_scenes import Needs, make_clips
from soundwhere.distributed import gather
from soundwhere.errors import ConfigError
from soundwhere.losses.contrastive import infonce_loss
from soundwhere.losses.object_aware import caption_contrast, masked_means, region_isolation
from soundwhere.methods.single_stage import SingleStageMethod
from soundwhere.methods.two_encoders import CosineMap, TwoEncodersConfig
from soundwhere.models.similarity import similarity_map

if TYPE_CHECKING:
    from torch import Tensor

    from soundwhere.config import Config
    from soundwhere.types import Batch


@dataclass(frozen=True)
class OASSLConfig(TwoEncodersConfig):
    """ResNet-18 for both, as published; the rest of the schedule is that of the authors' earlier NoPrior."""

    family: Literal["oa-ssl"] = "oa-ssl"
    name: str = "oa-ssl"
    freeze_visual: bool = True
    batch_size: int = 128
    """Clips per optimiser step, over all processes."""
    captions: Path | None = None
    """File with the embeddings of the clips' captions (.npz)."""
    caption_width: int = 768
    """Length of an embedding; taken from the file."""
    thresholds: Thresholds = Thresholds()  # noqa: RUF009 - frozen
    """Of source and background."""
    caption_weight: float = 1.0
    """Weight of OCA."""
    region_weight: float = 0.1
    """Weight of ORI."""
    temperature: float = 0.07
    """Of OCA."""
    alike: float = 0.8
    """Cosine above which two captions say the same, and their pictures are no negatives."""
    entropy: float = 0.05
    """Of the transport in ORI, whose costs are shares of the picture's diagonal."""
    iterations: int = 50
    """Of Sinkhorn."""

    training: ClassVar[frozenset[str]] = TwoEncodersConfig.training | {
        *("captions", "thresholds", "caption_weight", "region_weight", "temperature", "alike", "entropy", "iterations"),
    }
    changeable: ClassVar[frozenset[str]] = TwoEncodersConfig.changeable | {"captions"}

    def __post_init__(self) -> None:
        super().__post_init__()
        require_least(1, self, "caption_width", "iterations")
        require_positive(self, "temperature", "entropy")
        require_least(0, self, "caption_weight", "region_weight")


class OASSL(CosineMap):
    """The network of its base; captions are brought to the features by `project_captions`."""

    config: OASSLConfig

    def __init__(self, config: OASSLConfig) -> None:
        super().__init__(config)
        self.project_captions = nn.Linear(config.caption_width, self.channels[0], bias=False)

    @property
    def note(self) -> str:
        """What a row has to say."""
        return f"OA-SSL losses, captions given; {super().note}"

    def references(self, captions: Tensor) -> Tensor:
        """Captions (B, K + 1, caption_width) among the features, of unit length, shape (B, K + 1, C)."""
        return F.normalize(self.project_captions(F.normalize(captions, dim=-1)), dim=-1)


def loss(network: OASSL, batch: Batch) -> dict[str, Tensor]:
    """The base method's contrast, OCA and ORI."""
    config = network.config
    assert batch.captions is not None
    seen, heard = network.perceive(batch)
    cells, sound = F.normalize(seen, dim=1), F.normalize(heard, dim=1)
    references = network.references(batch.captions[:, 0])
    base = infonce_loss(cells, sound, config.thresholds)
    pooled = masked_means(cells, similarity_map(cells, sound), config.thresholds)
    foreground, background, every = (gather(part) for part in (*pooled, references))
    caption = caption_contrast(foreground, background, every, config.temperature, config.alike)
    region = region_isolation(cells, references, config.entropy, config.iterations)
    total = base + config.caption_weight * caption + config.region_weight * region
    return {"loss": total, "base": base, "caption": caption, "region": region}


def with_captions(config: Config) -> Config:
    """The configuration with the width of the captions, or an error if clips lack any."""
    method = config.method
    assert isinstance(method, OASSLConfig)
    if method.captions is None:
        raise ConfigError(
            "OA-SSL needs the embeddings of captions of its training pictures.",
            "Give the file with --captions; docs/rivals-several.md says how to make it.",
        )
    clips = make_clips(config.data)
    captions = read_captions(method.captions, [clips.key(index) for index in range(len(clips))])
    return replace(config, method=replace(method, caption_width=captions.shape[-1]))


METHOD = SingleStageMethod(
    OASSLConfig,
    OASSL,
    loss,
    needs=lambda config: Needs(sounds=1, captions=config.captions),
    check=with_captions,
)
