"""What DSOL trains: localising and classifying in turn on single clips, then objects in mixtures.

Everything that passes from one stage to the next (centres, dictionary, the judge, what clusters stand for) is in
buffers and weights of the network, so that a run that was stopped goes on as if it had not been.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.nn import functional as F

from soundwhere.data.draws import collate
from soundwhere.data.training_scenes import Needs, make_draws
from soundwhere.losses.pairs import with_strangers
from soundwhere.methods.classes import with_classes
from soundwhere.methods.dsol.clustering import cluster_means, clusters_of_classes, k_means, nearest
from soundwhere.methods.dsol.model import DSOL, DSOLConfig
from soundwhere.methods.dsol.objects import category_loss, location_loss, object_features
from soundwhere.methods.single_stage import Objective, SingleStage, SingleStageMethod

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor

    from soundwhere.config import Config
    from soundwhere.methods.method import Network, Progress, Schedule
    from soundwhere.methods.single_stage import Loss
    from soundwhere.types import Batch

SOLO = Needs(sounds=1, separate=True)
DUET = Needs(sounds=2)


def localising(network: DSOL, batch: Batch) -> dict[str, Tensor]:
    """Does something in the picture sound? For every sound, with its own picture and with another one."""
    seen = network.watch(batch)
    heard = network.hear_pooled(network.listen(batch.mixture))
    cells, sounds, match = with_strangers(network.cells(seen), network.sounds(heard))
    score = network.sounding(cells, sounds).flatten(1).amax(1)
    right = ((score > 0.5) == (match > 0.5)).to(score.dtype).mean()
    return {"loss": F.binary_cross_entropy(score, match), "right": right}


def classifying(network: DSOL, batch: Batch) -> dict[str, Tensor]:
    """Which cluster is it? For picture and sound alike."""
    labels = nearest(F.normalize(cut_out(network, batch), dim=1), network.centres)
    seen, heard = network.watch(batch), network.hear_pooled(network.listen(batch.mixture))
    picture = network.seen_classifier(seen.mean((2, 3)))
    sound = network.heard_classifier(heard)
    right = (sound.argmax(1) == labels).to(seen.dtype).mean()
    return {"loss": F.cross_entropy(picture, labels) + F.cross_entropy(sound, labels), "right": right}


def telling_apart(network: DSOL, batch: Batch) -> dict[str, Tensor]:
    """What is seen sounding should be what is heard, and nothing should sound in another picture."""
    seen = network.seen(batch)
    spectrogram = network.listen(batch.mixture)
    cells, sounds = network.cells(seen), network.sounds(network.hear_pooled(spectrogram))
    right, wrong = network.sounding(*with_strangers(cells, sounds)[:2]).chunk(2)
    category = category_loss(network.objects(seen, right).mean((2, 3)), network.judged(spectrogram))
    location = location_loss(right, wrong)
    return {
        "loss": category + network.config.location_weight * location,
        "category": category,
        "location": location,
    }


@torch.no_grad()
def cut_out(network: DSOL, batch: Batch) -> Tensor:
    """The features of what sounds in single clips, shape (B, C), as the network answers when it does not learn."""
    learning = network.training
    network.eval()
    seen = network.seen(batch)
    sounds = network.sounds(network.hear_pooled(network.spectrogram(batch.mixture)))
    found = object_features(seen, network.sounding(network.cells(seen), sounds), network.config.sounding)
    network.train(learning)
    return found


class Trains(Objective):
    """A loss that trains some parts; the rest gets no gradient.

    Args:
        network: The network.
        loss: What is minimised.
        parts: What trains, beside the encoders.
    """

    def __init__(self, network: DSOL, loss: Loss, parts: tuple[nn.Module | nn.Parameter, ...]) -> None:
        network.requires_grad_(False)
        encoders = (network.audio,) if network.config.freeze_visual else (network.visual, network.audio)
        for part in (*encoders, *parts):
            part.requires_grad_(True)
        super().__init__(network, loss)


def _heads(network: DSOL) -> tuple[nn.Module | nn.Parameter, ...]:
    return network.cell_head, network.sound_head, network.scale


class Localising(SingleStage):
    """A round of stage 1: where something sounds."""

    def objective(self, network: Network) -> Trains:
        """What is minimised."""
        assert isinstance(network, DSOL)
        return Trains(network, localising, _heads(network))


@dataclass(frozen=True)
class Classifying(SingleStage):
    """A round of stage 1: what sounds, by clusters that are made first."""

    number: int = 2

    @property
    def schedule(self) -> Schedule:
        """How long and how fast; classifiers learn faster."""
        assert isinstance(self.config, DSOLConfig)
        return replace(super().schedule, factors={"classifier": self.config.classifier_rate})

    def objective(self, network: Network) -> Trains:
        """What is minimised."""
        assert isinstance(network, DSOL)
        return Trains(network, classifying, (network.seen_classifier, network.heard_classifier))

    def prepare(self, network: Network, config: Config, progress: Progress) -> None:
        """Cluster what sounds in every clip, and draw the classifiers anew."""
        assert isinstance(network, DSOL)
        seed = config.train.seed + self.number
        raw = torch.cat([cut_out(network, batch).cpu() for batch in every_clip(network, config, SOLO, progress)])
        centres, numbers = k_means(F.normalize(raw, dim=1), network.config.clusters, seed)
        network.centres.copy_(centres)
        network.dictionary.copy_(cluster_means(raw, numbers, network.dictionary.cpu()))
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            for classifier in (network.seen_classifier, network.heard_classifier):
                classifier.cpu().reset_parameters()
                classifier.to(network.device)


class TellingApart(SingleStage):
    """Stage 2: objects in mixtures."""

    def objective(self, network: Network) -> Trains:
        """What is minimised."""
        assert isinstance(network, DSOL)
        parts = *_heads(network), network.object_weight, network.object_bias
        return Trains(network, telling_apart, parts)

    def prepare(self, network: Network, config: Config, progress: Progress) -> None:
        """Keep stage 1's ears, and find out what clusters stand for, if the clips' classes are known."""
        assert isinstance(network, DSOL)
        network.begin_stage_two()
        if not network.config.classes:
            return
        numbers, labels = [], []
        for batch in every_clip(network, config, replace(SOLO, labels=True), progress):
            assert batch.labels is not None
            numbers.append(nearest(F.normalize(cut_out(network, batch), dim=1), network.centres).cpu())
            labels.append(batch.labels[:, 0].cpu())
        shape = network.stands.shape
        stands = clusters_of_classes(torch.cat(numbers), torch.cat(labels), shape[1], shape[0])
        network.stands.copy_(stands)


def every_clip(network: DSOL, config: Config, needs: Needs, progress: Progress) -> Iterator[Batch]:
    """All clips once, in the same order whichever process asks."""
    size = network.config.batch_size
    draws = make_draws(
        config.data,
        needs,
        batch_size=size,
        seed=config.train.seed,
        frame_px=network.config.frame_px,
        eye=network.eye,
        progress=progress,
    )
    for start in range(0, len(draws), size):
        examples = [draws.draw(number) for number in range(start, min(start + size, len(draws)))]
        yield collate(examples, draws.native).to(network.device)
        progress(min(start + size, len(draws)), len(draws))


class DSOLMethod(SingleStageMethod[DSOLConfig]):
    """See `Method`."""

    def stages(self, config: DSOLConfig) -> tuple[SingleStage, ...]:
        """Localising and, from the second round on, classifying in turn; then telling apart."""
        rounds, classes = replace(config, steps=config.steps_round), replace(config, steps=config.steps_class)
        stages: list[SingleStage] = []
        for number in range(1, config.rounds + 1):
            stages.append(Localising(rounds, localising, SOLO, name=f"one-{number}"))
            if number > 1:
                stages.append(Classifying(classes, classifying, SOLO, name=f"class-{number}", number=number))
        return (*stages, TellingApart(config, telling_apart, DUET, name="two"))


METHOD = DSOLMethod(DSOLConfig, DSOL, telling_apart, check=partial(with_classes, needed=False))
