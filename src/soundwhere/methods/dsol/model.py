"""DSOL's settings and network."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import torch
from torch import nn
from torch.nn import functional as F

from soundwhere.config import require_least, require_positive, share_out
from soundwhere.methods.classes import choose_classes, taken
from soundwhere.methods.dsol.objects import class_maps, object_maps
from soundwhere.methods.several import ClassMaps
from soundwhere.methods.two_encoders import TwoEncodersConfig, pool
from soundwhere.models.encoders import build_audio, freeze
from soundwhere.types import Localisation

if TYPE_CHECKING:
    from torch import Tensor

    from soundwhere.methods.method import Given


@dataclass(frozen=True)
class DSOLConfig(TwoEncodersConfig):
    """The defaults are as published, for a set whose epoch has 500 steps: 15 epochs of stage 1 and 5 of stage 2."""

    family: Literal["dsol"] = "dsol"
    name: str = "dsol"
    fine_grid: bool = True
    spectrogram: str = "dsol"
    augment: str = "crop-flip-colour"
    """How pictures are changed at random in stage 1; those whose features are cached stay as they are."""
    dimension: int = 128
    """Size of the space in which cells and sounds are compared."""
    clusters: int = 11
    """How many objects the dictionary has."""
    sounding: float = 0.05
    """Value of a map above which a cell sounds, when objects are cut out."""
    classes: tuple[str, ...] = ()
    """Names by which maps are chosen at test; taken from the clips trained on, if they have classes."""
    rounds: int = 15
    """How often localising is trained in stage 1; classifying follows from the second time on."""
    steps_round: int = 500
    """Optimiser steps each time."""
    steps_class: int = 1_500
    """Optimiser steps of classifying, each time."""
    steps: int = 2_500
    """Optimiser steps of stage 2."""
    batch_size: int = 32
    weight_decay: float = 1e-4
    """Added to the gradient."""
    classifier_rate: float = 10.0
    """How much faster the classifiers learn than the rest."""
    location_weight: float = 0.25
    """Weight of where something sounds, beside what it is, in stage 2."""

    training: ClassVar[frozenset[str]] = TwoEncodersConfig.training | {
        *("sounding", "rounds", "steps_round", "steps_class", "classifier_rate", "location_weight"),
    }
    changeable: ClassVar[frozenset[str]] = frozenset({"steps", "learning_rate", "clip_norm"})

    def __post_init__(self) -> None:
        super().__post_init__()
        require_least(2, self, "clusters", "rounds", "batch_size")
        require_least(1, self, "steps_round", "steps_class")
        require_positive(self, "classifier_rate", "location_weight")

    def lasting(self, steps: int) -> Self:
        """See `MethodConfig`."""
        stage_one = {"steps_round": (self.steps_round, self.rounds), "steps_class": (self.steps_class, self.rounds - 1)}
        shares: dict[str, Any] = share_out(steps, {**stage_one, "steps": (self.steps, 1)})
        return replace(self, **shares)


class DSOL(ClassMaps):
    """Class maps: what a cell resembles of the dictionary, where something sounds.

    What it hears is a unit embedding, by which it is localised, and beside it the logits of the clusters, from a copy
    of stage 1's ears that stays as it is; shape (B, D + clusters).
    """

    config: DSOLConfig
    centres: Tensor
    dictionary: Tensor
    stands: Tensor

    def __init__(self, config: DSOLConfig) -> None:
        super().__init__(config)
        seen, heard = self.channels
        width, clusters = config.dimension, config.clusters
        self.cell_head = nn.Sequential(nn.Conv2d(seen, width, 1), nn.ReLU(), nn.Conv2d(width, width, 1))
        self.sound_head = nn.Sequential(nn.Linear(heard, width), nn.ReLU(), nn.Linear(width, width))
        self.scale = nn.Parameter(torch.tensor(5.0))
        self.seen_classifier, self.heard_classifier = nn.Linear(seen, clusters), nn.Linear(heard, clusters)
        self.object_weight, self.object_bias = nn.Parameter(torch.tensor(1.0)), nn.Parameter(torch.tensor(0.0))
        self.judge = freeze(nn.ModuleList([build_audio(config.audio, config.fine_grid), nn.Linear(heard, clusters)]))
        self.register_buffer("centres", torch.zeros(clusters, seen))
        self.register_buffer("dictionary", torch.zeros(clusters, seen))
        self.register_buffer("stands", torch.zeros(len(config.classes), clusters))
        if config.classes:
            self.needs = frozenset({"labels"})

    @property
    def note(self) -> str:
        """What a row has to say."""
        return "labels given at test alone" if self.needs else "clusters heard most surely"

    def begin_stage_two(self) -> None:
        """Keep the ears and the classifier of stage 1 as the judge of what is heard."""
        ears, classifier = self.judge
        ears.load_state_dict(self.audio.state_dict())
        classifier.load_state_dict(self.heard_classifier.state_dict())

    def hear_pooled(self, spectrogram: Tensor) -> Tensor:
        """Encode spectrograms (B, 1, F, T) into pooled vectors, shape (B, C')."""
        return pool(self.audio(spectrogram), self.config.pooling)

    @torch.no_grad()
    def judged(self, spectrogram: Tensor) -> Tensor:
        """Logits of the clusters in spectrograms (B, 1, F, T), from what was kept of stage 1, shape (B, clusters)."""
        ears, classifier = self.judge
        logits: Tensor = classifier(pool(ears(spectrogram), self.config.pooling))
        return logits

    def embed(self, spectrogram: Tensor) -> Tensor:
        """What is heard in spectrograms (B, 1, F, T), and which clusters, shape (B, D + clusters)."""
        return torch.cat([self.sounds(self.hear_pooled(spectrogram)), self.judged(spectrogram)], dim=1)

    def cells(self, seen: Tensor) -> Tensor:
        """Unit cells, shape (B, D, h, w)."""
        return F.normalize(self.cell_head(seen), dim=1)

    def sounds(self, heard: Tensor) -> Tensor:
        """Unit sounds of pooled vectors (B, C'), shape (B, D)."""
        return F.normalize(self.sound_head(heard), dim=1)

    def sounding(self, cells: Tensor, sounds: Tensor) -> Tensor:
        """Where something sounds, shape (B, h, w), in (0, 1), from unit cells and unit sounds."""
        return torch.sigmoid(self.scale * torch.einsum("bdhw,bd->bhw", cells, sounds))

    def objects(self, seen: Tensor, sounding: Tensor) -> Tensor:
        """What of the dictionary sounds where, shape (B, clusters, h, w)."""
        return object_maps(seen, self.dictionary, self.object_weight, self.object_bias) * sounding[:, None]

    def localise(
        self, seen: Tensor, heard: Tensor, sources: int | None = None, given: Given | None = None
    ) -> Localisation:
        """The maps of the labelled classes, each the sum of its clusters', or of the clusters heard most surely."""
        width, count = self.config.dimension, sources or self.sources
        maps = class_maps(self.objects(seen, self.sounding(self.cells(seen), heard[:, :width])))
        surety, vectors = heard[:, width:].softmax(1), self.dictionary.expand(seen.shape[0], -1, -1)
        names: tuple[str, ...] = tuple(map(str, range(self.config.clusters)))
        if given is not None and given.labels is not None:
            names = self.config.classes
            maps = torch.einsum("kc,bchw->bkhw", self.stands, maps)
            surety = (surety @ self.stands.T).clamp_max(1)
            vectors = torch.einsum("kc,bcd->bkd", self.stands, vectors)
        chosen = choose_classes(surety, names, given, count)
        return Localisation(taken(maps, chosen).clamp_max(1), taken(surety, chosen), taken(vectors, chosen))

    def views(self, seen: Tensor, heard: Tensor) -> dict[str, Tensor]:
        """Where anything sounds, to be watched while training."""
        return {"sounding": self.sounding(self.cells(seen), heard[:, : self.config.dimension])[:, None]}
