"""What trains in each stage, what stays exactly as it is, and the paper's ablations."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import torch

from soundwhere.data.training_scenes import Needs
from soundwhere.errors import ConfigError
from soundwhere.losses.contrastive import infonce_loss, source_loss
from soundwhere.methods.method import Schedule
from soundwhere.methods.scav.method import METHOD
from soundwhere.methods.scav.model import SCAV
from soundwhere.methods.scav.stages import Objective, StageName
from soundwhere.methods.scav.strength import STRENGTH
from soundwhere.models.similarity import prepare

if TYPE_CHECKING:
    from collections.abc import Callable

    from soundwhere.methods.scav.config import SCAVConfig
    from soundwhere.types import Batch

HEADS = {"project_visual", "project_audio", "visual_decouplers", "audio_decoupler"}


def make(config: SCAVConfig, stage: StageName, **loss: Any) -> Objective:
    """The objective of a stage, by default with the paper's loss of stage 2."""
    torch.manual_seed(0)
    return Objective(SCAV(replace(config, **{"stage_two": "paper", **loss})), stage)


def step(objective: Objective, batch: Batch) -> dict[str, torch.Tensor]:
    """One step of plain descent on whatever has a gradient."""
    values = objective(batch)
    values["loss"].backward()
    with torch.no_grad():
        for parameter in objective.parameters():
            if parameter.grad is not None:
                parameter -= 0.1 * parameter.grad
    return values


def parts(names: list[str]) -> set[str]:
    return {name.removeprefix("model.").split(".")[0] for name in names}


@pytest.mark.parametrize(
    ("stage", "changes", "trained"),
    [
        ("one", {}, {"visual", "audio"}),
        ("one", {"freeze_visual": True}, {"audio"}),
        ("two", {}, HEADS),
        ("two", {"second_audio_encoder": True}, {*HEADS, "second_audio"}),
        ("two", {"share_decoupler": False}, HEADS),
        ("joint", {}, {"visual", "audio", *HEADS}),
        ("joint", {"freeze_visual": True}, {"audio", *HEADS}),
    ],
)
def test_what_trains_and_what_does_not_move(
    tiny: SCAVConfig,
    make_batch: Callable[..., Batch],
    stage: StageName,
    changes: dict[str, bool],
    trained: set[str],
) -> None:
    objective = make(replace(tiny, **changes), stage)
    wanted = [name for name, parameter in objective.named_parameters() if parameter.requires_grad]
    assert parts(wanted) == trained
    before = {name: tensor.clone() for name, tensor in objective.state_dict().items()}
    values = step(objective, make_batch())
    assert values["loss"].isfinite()
    assert all(not value.requires_grad for name, value in values.items() if name != "loss")
    moved = [name for name, tensor in objective.state_dict().items() if not torch.equal(tensor, before[name])]
    assert parts(moved) == trained
    reached = [name for name, parameter in objective.named_parameters() if parameter.grad is not None]
    assert reached == wanted  # all of them, as DistributedDataParallel demands
    statistics = [name for name in moved if "running" in name]
    assert bool(statistics) == bool(trained & {"visual", "audio", "second_audio"})


@pytest.mark.parametrize("stage", ["one", "two", "joint"])
def test_eval_and_train_come_back_to_what_the_stage_needs(tiny: SCAVConfig, stage: StageName) -> None:
    objective = make(replace(tiny, freeze_visual=True), stage)
    before = {name: module.training for name, module in objective.named_modules()}
    objective.eval()
    assert not any(module.training for module in objective.modules())
    objective.train()
    assert {name: module.training for name, module in objective.named_modules()} == before
    assert not any(module.training for module in objective.model.visual.modules())


def test_a_frozen_encoder_stays_even_if_everything_is_told_to_train(
    tiny: SCAVConfig, make_batch: Callable[..., Batch]
) -> None:
    objective = make(replace(tiny, freeze_visual=True), "joint")
    objective.requires_grad_(True)
    for module in objective.modules():
        module.train()
    before = {name: tensor.clone() for name, tensor in objective.model.visual.state_dict().items()}
    step(objective, make_batch())
    for name, tensor in objective.model.visual.state_dict().items():
        assert torch.equal(tensor, before[name]), name


def test_stage_two_leaves_its_prior_alone(tiny: SCAVConfig, make_batch: Callable[..., Batch]) -> None:
    objective, batch = make(replace(tiny, second_audio_encoder=True), "two"), make_batch()

    def prior() -> torch.Tensor:
        model = objective.model
        features = model.seen(batch)
        return model.spatial_prior(model.similarity(features, model.audio(model.spectrogram(batch.mixture))), features)

    before = prior()
    step(objective, batch)
    assert torch.equal(prior(), before)


def test_stage_one_is_the_chosen_form(tiny: SCAVConfig, make_batch: Callable[..., Batch]) -> None:
    objective, batch = make(tiny, "one").eval(), make_batch()
    model = objective.model
    features, embedding = model.seen(batch), model.audio(model.spectrogram(batch.mixture))
    expected = infonce_loss(prepare(features, "cosine"), prepare(embedding, "cosine"), tiny.thresholds)
    torch.testing.assert_close(objective(batch)["loss"], expected)
    other = make(tiny, "one", stage_one="paper").eval()
    assert (other(batch)["loss"] - expected).abs() > 1e-3


@pytest.mark.parametrize("cross", [False, True])
def test_stage_two_is_the_sum_over_both_sources(
    tiny: SCAVConfig, make_batch: Callable[..., Batch], cross: bool
) -> None:
    objective, batch = make(tiny, "two", cross_sample_negatives=cross).eval(), make_batch()
    model = objective.model
    features, embedding = model.seen(batch), model.audio(model.spectrogram(batch.mixture))
    prior = model.spatial_prior(model.similarity(features, embedding), features)
    branches = model.decouple(features, torch.stack([embedding, embedding], dim=1), prior)
    expected = sum(
        source_loss(
            prepare(branches.features[:, k], "cosine"),
            prepare(branches.embeddings[:, k], "cosine"),
            tiny.thresholds,
            cross,
        )
        for k in range(2)
    )
    torch.testing.assert_close(objective(batch)["loss"], expected)


def test_cross_sample_negatives_look_at_other_samples(tiny: SCAVConfig, make_batch: Callable[..., Batch]) -> None:
    batch = make_batch(4)
    for cross in (False, True):
        objective = make(tiny, "two", stage_two="paper", cross_sample_negatives=cross).eval()
        whole = objective(batch)["loss"]
        halves = (objective(batch[:2])["loss"] + objective(batch[2:])["loss"]) / 2
        assert torch.allclose(whole, halves, atol=1e-4) != cross


@pytest.mark.parametrize("prior", ["algorithm1", "minmax", "uniform"])
@pytest.mark.parametrize("form", ["paper", "distil"])
def test_every_prior_trains_with_every_stage_two_loss(
    tiny: SCAVConfig, make_batch: Callable[..., Batch], prior: str, form: str
) -> None:
    objective = make(replace(tiny, prior=prior), "two", stage_two=form)
    values = step(objective, make_batch())
    assert values["loss"].isfinite()
    if prior == "uniform":
        torch.testing.assert_close(values["peak_1"], values["peak_2"])


@pytest.mark.parametrize("through", [False, True])
def test_joint_training_adds_both_losses_and_may_train_through_the_prior(
    tiny: SCAVConfig, make_batch: Callable[..., Batch], through: bool
) -> None:
    batch = make_batch()
    joint, one, two = (
        make(tiny, stage, stage_two="distil", prior_gradient=through).eval() for stage in ("joint", "one", "two")
    )
    values = joint(batch)
    torch.testing.assert_close(values["loss"], one(batch)["loss"] + two(batch)["loss"])
    torch.testing.assert_close(values["stage_one"], one(batch)["loss"].detach())
    other = make(tiny, "joint", stage_two="distil", prior_gradient=not through).eval()
    values["loss"].backward()
    other(batch)["loss"].backward()
    pairs = zip(joint.model.audio.parameters(), other.model.audio.parameters(), strict=True)
    assert any((mine.grad - theirs.grad).abs().max() > 1e-8 for mine, theirs in pairs)


def test_solo_sounds_do_not_move_the_statistics_for_mixtures(
    tiny: SCAVConfig, make_batch: Callable[..., Batch]
) -> None:
    batch = make_batch()
    alike, distilled = make(tiny, "joint"), make(tiny, "joint", stage_two="distil")
    for objective in (alike, distilled):
        objective(batch)
        assert all(module.training for module in objective.model.audio.modules())
    pairs = zip(alike.model.audio.named_buffers(), distilled.model.audio.named_buffers(), strict=True)
    for (name, mine), (_, theirs) in pairs:
        assert torch.equal(mine, theirs), name


def test_teachers_are_maps_between_0_and_1_without_gradient(tiny: SCAVConfig, make_batch: Callable[..., Batch]) -> None:
    objective, batch = make(tiny, "two"), make_batch()
    teacher = objective.solo_maps(batch, objective.model.seen(batch))
    assert teacher.shape == (3, 2, 4, 4)
    assert 0 <= teacher.min() <= teacher.max() <= 1
    assert not teacher.requires_grad


def test_native_mixtures_cannot_be_distilled(tiny: SCAVConfig, make_batch: Callable[..., Batch]) -> None:
    objective = make(tiny, "two", stage_two="distil")
    with pytest.raises(ConfigError, match="native mixtures") as caught:
        objective(make_batch(solos=False))
    assert "--mixtures made" in caught.value.remedy
    make(tiny, "two")(make_batch(solos=False))  # the paper's loss asks for none


def test_known_frames_teach_without_hearing_solo_sounds(tiny: SCAVConfig, make_batch: Callable[..., Batch]) -> None:
    objective = make(tiny, "two", stage_two="distil", teacher="strength")
    targets = torch.zeros(3, 2, 4, 4)
    targets[:, 0, :2, :2], targets[:, 1, 2:, 2:] = 0.2, 0.6
    batch = replace(make_batch(solos=False), targets=targets)
    taught = objective.taught(batch, objective.model.seen(batch))
    assert torch.equal(taught > 0.5, targets > 0)  # however weak a frame's features are, its strongest cell counts
    assert objective(batch)["loss"].isfinite()
    with pytest.raises(ConfigError, match="which frame"):
        objective(make_batch())


def test_spectrograms_are_blanked_in_training_only(tiny: SCAVConfig, make_batch: Callable[..., Batch]) -> None:
    batch = make_batch()
    plain, blanked = make(tiny, "one"), make(tiny, "one", blank=2)
    assert not torch.equal(plain(batch)["loss"], blanked(batch)["loss"])
    plain, blanked = make(tiny, "one").eval(), make(tiny, "one", blank=2).eval()
    assert torch.equal(plain(batch)["loss"], blanked(batch)["loss"])


def test_the_stages_of_a_run_in_their_order(tiny: SCAVConfig) -> None:
    settings = replace(tiny, learning_rate=1e-3, learning_rate_two=1e-4, batch_size=32, batch_size_two=8, clip_norm=2.0)
    one, two = METHOD.stages(replace(settings, schedule="cosine", warmup_steps=7, accumulate=2))
    assert (one.name, two.name) == ("one", "two")
    assert (one.follows, two.follows) == (None, "one")
    shared = {"decay": "cosine", "warmup_steps": 7, "clip_norm": 2.0, "accumulate": 2}
    assert one.schedule == Schedule(32, 1e-3, **shared)
    assert two.schedule == Schedule(8, 1e-4, **shared)
    for stage in ("one", "two", "joint"):
        [alone] = METHOD.stages(replace(settings, stage=stage))
        assert alone.name == stage
        assert alone.schedule.batch_size == (8 if stage == "two" else 32)


@pytest.mark.parametrize(("share", "bounds"), [(0.0, [(10, 2)]), (0.4, [(4, 1), (10, 2)]), (1.0, [(10, 1)])])
def test_stage_one_may_begin_with_single_clips(tiny: SCAVConfig, share: float, bounds: list[tuple[int, int]]) -> None:
    one, two = METHOD.stages(replace(tiny, single_fraction=share, steps_one=10, steps_two=20))
    assert [(phase.until, phase.needs.sounds) for phase in one.phases] == bounds
    assert not any(phase.needs.separate or phase.needs.target for phase in one.phases)
    assert [(phase.until, phase.needs.sounds) for phase in two.phases] == [(20, 2)]


@pytest.mark.parametrize("stage", ["two", "joint"])
def test_what_stage_two_asks_of_a_scene_depends_on_its_loss(tiny: SCAVConfig, stage: StageName) -> None:
    def needs(**loss: Any) -> Needs:
        [found] = METHOD.stages(replace(tiny, stage=stage, **loss))
        return found.phases[-1].needs

    assert needs(stage_two="distil", teacher="grow") == Needs(sounds=2, separate=True)
    assert needs(stage_two="distil", teacher="strength") == Needs(sounds=2, separate=True, target=STRENGTH)
    for teacher in ("grow", "strength"):
        assert needs(stage_two="paper", teacher=teacher) == Needs(sounds=2)


def test_stage_one_leaves_itself_behind_and_stage_two_begins_there(tiny: SCAVConfig) -> None:
    torch.manual_seed(0)
    model = SCAV(replace(tiny, second_audio_encoder=True))
    one, two = METHOD.stages(model.config)
    left = one.finish(model)
    assert isinstance(left, SCAV)
    assert left.sources == 1
    torch.testing.assert_close(left.audio.state_dict(), model.audio.state_dict(), rtol=0, atol=0)
    assert model.second_audio is not None
    torch.testing.assert_close(model.second_audio.state_dict(), model.audio.state_dict(), rtol=0, atol=0)
    assert two.finish(model) is None
