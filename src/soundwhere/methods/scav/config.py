"""Every setting of SCAV: the architecture, what is minimised, and for how long. No torch here."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self

from soundwhere import constants
from soundwhere.config import (
    MethodConfig,
    Thresholds,
    positive_multiple,
    require,
    require_least,
    require_positive,
    share_out,
)


@dataclass(frozen=True)
class SCAVConfig(MethodConfig):
    """The defaults are `scav-r18`, the paper's model."""

    family: Literal["scav"] = "scav"
    name: str = "scav-r18"

    # The architecture
    visual: str = "resnet18"
    """Visual encoder: resnet18, mobilenet_v2 or tiny."""
    audio: str = "resnet18"
    """Audio encoder: resnet18, mobilenet_v2, compact or tiny."""
    visual_weights: str = "imagenet"
    """Weights the visual encoder starts from: `imagenet`, `built-in` (from the package), a file, or `none`."""
    audio_weights: str = "none"
    """Weights the audio encoder starts from: `none`, `imagenet`, a file, or `visual`, those of the visual encoder."""
    freeze_visual: bool = True
    """Keep the visual encoder as it is: no gradients, BatchNorm statistics that do not move."""
    fine_grid: bool = False
    """MobileNetV2 only: a 14 x 14 grid instead of 7 x 7 for a frame of 224."""
    spectrogram: Literal["paper", "peers", "mel"] = "paper"
    """Log-spectrogram preset."""
    pooling: Literal["average", "max"] = "average"
    """Pooling of the audio encoder's map into one embedding."""
    similarity: Literal["cosine", "dot"] = "cosine"
    """How an audio embedding is compared with a cell."""
    thresholds: Thresholds = Thresholds()  # noqa: RUF009 - frozen
    """Thresholds of both stages' losses and of Algorithm 1."""
    prior: Literal["algorithm1", "minmax", "uniform"] = "algorithm1"
    """Spatial prior: Algorithm 1, min-max of the similarity (without Algorithm 1), or 0.5 everywhere (ablation a)."""
    prior_features: Literal["normalised", "raw"] = "normalised"
    """Features V' that Algorithm 1 compares."""
    dimension: int = 512
    """Embedding size D of stage 2."""
    decoupler_layers: int = constants.DECOUPLER_LAYERS
    """Layers of the visual decoupler."""
    decoupler_heads: int = constants.DECOUPLER_HEADS
    """Attention heads of both decouplers."""
    share_decoupler: bool = True
    """One visual decoupler for both branches."""
    maps: Literal["similarity", "presence", "shaped"] = "similarity"
    """What the maps of both stages show: the raw similarity; how surely a cell belongs to the source, which is what the
    loss `distil` reads from the similarity; or that, shaped by the strength of the visual features."""
    decouple: bool = True
    """Localise with both stages; without (ablation b) stage 1's one map is the answer."""
    second_audio_encoder: bool = False
    """Give stage 2 an audio encoder of its own, so that it can train while stage 1's prior stays."""

    # What is minimised
    stage_one: Literal["infonce", "paper"] = "infonce"
    """Form of the stage-1 loss."""
    stage_two: Literal["distil", "paper"] = "distil"
    """Stage-2 loss: distillation of the solo sounds' stage-1 maps, or the paper's source-specific contrast."""
    teacher: Literal["grow", "algorithm1", "strength"] = "grow"
    """What `distil` teaches: a solo sound's stage-1 map, its peak grown over alike cells with strong features or shaped
    by Algorithm 1; or the feature strength of the frame that each sound came with (clips only)."""
    softness: float = 0.1
    """Width of the step from background to source in what `distil` teaches; a wide one keeps grades of strength."""
    cross_sample_negatives: bool = False
    """Add cross-sample negatives to stage 2 (ablation d)."""
    prior_gradient: bool = False
    """Let stage 2's gradient flow through the spatial prior (joint training only)."""
    blank: int = 0
    """Bands, and as many spans of time, that are blanked in each spectrogram trained on (SpecAugment)."""

    # For how long. Adam 1e-4 and batch 256 are the paper's
    stage: Literal["one", "two", "both", "joint"] = "both"
    """Stage 1, stage 2 (from a stage-1 checkpoint), one after the other, or both losses at once (ablation c)."""
    steps_one: int = 20_000
    """Optimiser steps of stage 1."""
    steps_two: int = 20_000
    """Optimiser steps of stage 2 (and of joint training)."""
    single_fraction: float = 0.0
    """Share of stage 1's steps, at its start, that train on single clips before mixtures (a curriculum)."""
    batch_size: int = constants.BATCH_SIZE
    """Scenes per optimiser step, over all processes."""
    batch_size_two: int | None = None
    """The same for stage 2, if it differs."""
    accumulate: int = 1
    """Parts a process's batch is cut into; saves memory, and leaves fewer contrastive negatives for each part."""
    learning_rate: float = constants.LEARNING_RATE
    """Initial learning rate of Adam."""
    learning_rate_two: float | None = None
    """The same for stage 2, if it differs."""
    schedule: Literal["constant", "cosine"] = "constant"
    """Learning rate over the steps of a stage."""
    warmup_steps: int = 0
    """Steps over which the learning rate rises from 0."""
    clip_norm: float = 0.0
    """Largest norm of the gradient; 0 leaves it as it is."""
    trainable: Literal["heads", "full"] = "heads"
    """Stage 2 trains its projections and decouplers, or (`full`) its audio encoder too."""

    training: ClassVar[frozenset[str]] = frozenset(
        {
            *("stage_one", "stage_two", "teacher", "softness", "cross_sample_negatives", "prior_gradient", "blank"),
            *("stage", "steps_one", "steps_two", "single_fraction", "batch_size", "batch_size_two", "accumulate"),
            *("learning_rate", "learning_rate_two", "schedule", "warmup_steps", "clip_norm", "trainable"),
        }
    )
    changeable: ClassVar[frozenset[str]] = frozenset(
        {"steps_one", "steps_two", "learning_rate", "learning_rate_two", "clip_norm"}
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        fine = not self.fine_grid or self.visual == "mobilenet_v2"
        require(fine, "visual", self.visual, "mobilenet_v2 if fine_grid")
        heads = self.decoupler_heads
        require_least(1, self, "decoupler_layers", "decoupler_heads")
        require_least(1, self, "steps_one", "steps_two", "batch_size", "accumulate")
        fits = positive_multiple(self.dimension, 4) and positive_multiple(self.dimension, heads)
        require(fits, "dimension", self.dimension, f"a multiple of 4 and of the {heads} attention heads")
        require_least(0, self, "blank", "warmup_steps", "clip_norm")
        require_positive(self, "softness", "learning_rate", "learning_rate_two", "batch_size_two")
        require(0 <= self.single_fraction <= 1, "single_fraction", self.single_fraction, "between 0 and 1")

    def trained_like(self, other: MethodConfig) -> SCAVConfig:
        """See `MethodConfig`; a network that is trained again gets its second stage back."""
        return replace(super().trained_like(other), decouple=True)

    def lasting(self, steps: int) -> Self:
        """See `MethodConfig`."""
        one, two = {"steps_one": (self.steps_one, 1)}, {"steps_two": (self.steps_two, 1)}
        parts = {"one": one, "both": {**one, **two}}.get(self.stage, two)
        shares: dict[str, Any] = share_out(steps, parts)
        return replace(self, **shares)

    def of_stage(self, stage: str) -> SCAVConfig:
        """The same with the learning rate and the batch size of one stage."""
        if stage != "two":
            return self
        return replace(
            self,
            learning_rate=self.learning_rate_two or self.learning_rate,
            batch_size=self.batch_size_two or self.batch_size,
        )


NAMED: dict[str, SCAVConfig] = {
    # The paper: ResNet-18 for both, D 512.
    "scav-r18": SCAVConfig(),
    # Small and quick on a CPU. Both encoders start from photographs: hearing takes far fewer sounds then.
    "scav-mobile": SCAVConfig(
        name="scav-mobile",
        visual="mobilenet_v2",
        audio="mobilenet_v2",
        audio_weights="visual",
        spectrogram="mel",
        prior_features="raw",
        dimension=256,
        decoupler_layers=2,
        maps="shaped",
    ),
    # For the made-up world: small CNNs trained from scratch, the visual one included.
    "scav-tiny": SCAVConfig(
        name="scav-tiny",
        visual="tiny",
        audio="tiny",
        visual_weights="none",
        freeze_visual=False,
        frame_px=128,
        dimension=128,
        decoupler_layers=2,
    ),
}
"""The named models."""
