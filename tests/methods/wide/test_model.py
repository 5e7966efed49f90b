"""scav-wide: what it gives, what its stages train, and that what stage 1 hears decides where anything is lit."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from soundwhere.config import Config, DataConfig, TrainConfig
from soundwhere.errors import CheckpointError, ConfigError
from soundwhere.media.log_mel import log_mel
from soundwhere.methods.catalogue import find_method, named_config
from soundwhere.methods.files import load_model, read_tensors, write_model
from soundwhere.methods.wide.config import WideConfig
from soundwhere.methods.wide.explaining import explain
from soundwhere.methods.wide.hearing import Ear, cross_scores, heard_map, similarities, soft_maximum
from soundwhere.methods.wide.model import WideSCAV
from soundwhere.methods.wide.shape import SHAPE, ShapeHead, colours
from soundwhere.methods.wide.stages import Counting, Hearing, WideStage, mix, put_together, strongest
from soundwhere.models.encoders.levels import MobileNetV2Levels, unpack
from soundwhere.models.encoders.mobilenet import MobileNetV2
from soundwhere.training.loop import make_optimiser
from soundwhere.training.run import train
from soundwhere.types import Batch

if TYPE_CHECKING:
    from pathlib import Path

SMALL = WideConfig(visual_weights="none", audio_weights="none", others=3, apart=True)


@pytest.fixture(scope="module")
def model() -> WideSCAV:
    torch.manual_seed(0)
    return WideSCAV(SMALL).eval()


def noise(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@torch.no_grad()
def test_levels_are_those_of_mobilenet_packed_into_one() -> None:
    torch.manual_seed(0)
    levels = MobileNetV2Levels().eval()
    plain = MobileNetV2().eval()
    plain.load_state_dict(levels.state_dict())
    image = noise(2, 3, 64, 96)
    seen = unpack(levels(image))
    torch.testing.assert_close(seen.coarse, plain(image))
    fine = plain.features[:7](image)
    torch.testing.assert_close(seen.fine, fine)
    torch.testing.assert_close(seen.middle, plain.features[7:14](fine))
    assert levels(image).shape == (2, MobileNetV2Levels.packed, 2, 3)


@torch.no_grad()
def test_two_maps_four_times_as_fine_and_sharper_still_with_the_picture(model: WideSCAV) -> None:
    image, sound = noise(2, 3, 64, 96), 0.1 * noise(2, 66_150)
    seen, heard = model.see(image), model.hear(sound)
    assert heard.shape == (2, 20, 1280)
    torch.testing.assert_close(heard.norm(dim=-1), torch.ones(2, 20))
    found = model.localise(seen, heard)
    assert found.similarity.shape == (2, 2, 8, 12)
    assert 0 <= found.similarity.min() <= found.similarity.max() <= 1
    assert 0 <= found.confidence.min() <= found.confidence.max() <= 1
    assert model.sharpen(found.similarity, image).shape == (2, 2, 16, 24)
    for sources in (1, 3, 4):
        more = model.localise(seen, heard, sources)
        assert more.similarity.shape[1] == more.confidence.shape[1] == more.embeddings.shape[1] == sources
        assert (more.confidence.diff(dim=1) <= 0).all()  # a further source is never surer


@torch.no_grad()
def test_where_nothing_fits_the_sound_nothing_is_lit(model: WideSCAV) -> None:
    """Cells are copies of a sound's embedding on the left and orthogonal to it on the right."""
    seen = torch.zeros(1, MobileNetV2Levels.packed, 7, 14)
    heard = F.normalize(torch.rand(1, 3, 1280), dim=-1) * (torch.arange(1280) < 640)
    heard = F.normalize(heard, dim=-1)
    seen[:, :1280, :, :7] = heard[0, 0][None, :, None, None]
    seen[:, 640:1280, :, 7:] = 640**-0.5
    lit = model.localise(seen, heard, sources=1).similarity[0, 0]
    assert lit[:, 40:].max() < 1e-3 * lit[:, :24].max()


@torch.no_grad()
def test_a_picture_in_which_hardly_anything_sounds_stays_dark(model: WideSCAV) -> None:
    opinionated = WideSCAV(SMALL).eval()
    opinionated.load_state_dict(model.state_dict())
    opinionated.count[1].weight.copy_(noise(*opinionated.count[1].weight.shape))
    seen, heard = opinionated.see(noise(2, 3, 64, 96)), opinionated.hear(0.1 * noise(2, 66_150))
    lit = opinionated.localise(seen, heard)
    less, more = lit.confidence[:, 0].argsort().tolist()
    assert lit.confidence[less, 0] < lit.confidence[more, 0]
    between = float(lit.confidence[:, 0].mean())

    modest = WideSCAV(replace(SMALL, dark=between)).eval()
    modest.load_state_dict(opinionated.state_dict())
    found = modest.localise(seen, heard)
    assert not found.similarity[less].any()
    assert torch.equal(found.similarity[more], lit.similarity[more])
    assert torch.equal(found.confidence, lit.confidence)  # that it is unsure is still said
    assert torch.equal(modest.localise(seen, heard, sources=2).similarity, lit.similarity)  # who asks for two gets two
    never = {each.name: each for each in modest.offers}["never dark"]
    assert torch.equal(never.answer(modest, seen, heard, (1, 1)), lit.similarity)
    assert "never dark" not in {each.name for each in opinionated.offers}


def test_soft_maximum_lies_between_mean_and_maximum() -> None:
    values = noise(5, 7)
    soft = soft_maximum(values, 1, 0.3)
    assert (soft <= values.amax(1)).all()
    assert (soft >= values.mean(1)).all()


def test_cross_scores_are_the_maps_of_all_pairs() -> None:
    features, cells = torch.rand(3, 8, 2, 2), F.normalize(torch.rand(4, 5, 8), dim=-1)
    scores = cross_scores(similarities(features.flatten(2), cells), 0.05)
    for sound in range(4):
        maps = heard_map(features, cells[sound].expand(3, -1, -1), 0.05)
        torch.testing.assert_close(scores[sound], soft_maximum(maps.flatten(1), 1, 0.05))


def test_mixtures_hold_what_they_say() -> None:
    sounds, counts = noise(6, 1000), torch.tensor([2, 0, 1, 3])
    mixtures, belongs = mix(sounds, counts, torch.Generator().manual_seed(0))
    assert belongs.sum(1).tolist() == [2, 0, 1, 3]
    assert belongs.sum(0).tolist() == [1] * 6
    sums = belongs @ sounds
    for mixture, expected, count in zip(mixtures, sums, counts, strict=True):
        if count:  # but for its gain
            torch.testing.assert_close(mixture / mixture.norm(), expected / expected.norm())
    assert mixtures[1].std() > 0


def test_the_strongest_cells() -> None:
    features = torch.rand(2, 4, 3, 3)
    features[0, :, 1, 2] = 9
    cells = strongest(features, 2)
    assert cells.shape == (2, 4, 2)
    torch.testing.assert_close(cells[0, :, 0], features[0, :, 1, 2])
    assert strongest(features, 99).shape == (2, 4, 9)


def clips(model: WideSCAV, count: int = 6) -> Batch:
    with torch.no_grad():
        features = model.see(noise(count, 3, 64, 64))
    sounds = 0.1 * noise(count, 1, 66_150)
    return Batch(sounds[:, 0], features=features, solos=sounds)


def test_stage_one_trains_the_ear_and_nothing_else() -> None:
    torch.manual_seed(0)
    model = WideSCAV(SMALL)
    objective = Hearing(model)
    values = objective(clips(model))
    values["loss"].backward()
    trained = {name for name, parameter in model.named_parameters() if parameter.grad is not None}
    assert all(name.startswith("ear.") or name in ("log_contrast", "log_presence", "bias") for name in trained)
    assert not any(name.startswith(f"ear.encoder.layer{number}.") for name in trained for number in (1, 2, 3))
    assert "ear.head.weight" in trained
    assert all(not value.requires_grad for name, value in values.items() if name != "loss")
    torch.manual_seed(5)
    first = objective(clips(model))["loss"]
    torch.manual_seed(5)
    assert torch.equal(first, objective(clips(model))["loss"])  # all that is drawn comes from the seed


def test_scores_learn_fastest_heads_faster_and_encoders_at_the_rate_itself() -> None:
    stage = WideStage("one", SMALL)
    objective = Hearing(WideSCAV(replace(SMALL, ears=2)))
    groups = make_optimiser(objective, stage.schedule).param_groups
    names = {parameter: name.removeprefix("network.") for name, parameter in objective.named_parameters()}
    rates = {names[parameter]: group["factor"] for group in groups for parameter in group["params"]}
    fast, scores = {"ear.head", "further.0.head"}, {"log_contrast", "log_presence", "bias"}
    assert {name for name, factor in rates.items() if factor == 30} == scores
    assert {name.rpartition(".")[0] for name, factor in rates.items() if factor == SMALL.head_rate} == fast
    assert rates["ear.encoder.layer4.depthwise.bias"] == rates["further.0.encoder.layer14.pointwise.weight"] == 1


@torch.no_grad()
def test_two_ears_hear_side_by_side(model: WideSCAV) -> None:
    torch.manual_seed(1)
    both = WideSCAV(replace(SMALL, ears=2)).eval()
    for ear in both.ears:
        ear.common.copy_(torch.rand(1280))
    seen, sound = both.see(noise(2, 3, 64, 96)), 0.1 * noise(2, 66_150)
    heard = both.hear(sound)
    apart = [ear(both.spectrogram(sound)) for ear in both.ears]
    assert torch.equal(heard, torch.cat(apart, dim=1))
    assert both.localise(seen, heard).similarity.shape == (2, 2, 8, 12)
    # what all sounds have in common is put back to each ear's own embeddings
    known = both.evidence(seen[:, :1280], explain(seen[:, :1280], heard, 2), heard)[:, -1]
    cells = F.normalize(seen[:, :1280].flatten(2), dim=1)
    whole = [here + ear.common for here, ear in zip(apart, both.ears, strict=True)]
    torch.testing.assert_close(known, (torch.cat(whole, dim=1) @ cells).amax(2).mean(1))

    alone = WideSCAV(SMALL).eval()
    alone.start_from(both)
    assert torch.equal(alone.hear(sound), apart[0])
    again = WideSCAV(replace(SMALL, ears=2)).eval()
    again.start_from(model)
    assert torch.equal(again.hear(sound)[:, :20], model.hear(sound))


def test_every_ear_is_trained_on_mixtures_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    network = WideSCAV(replace(SMALL, ears=2))
    objective = Hearing(network)
    heard: list[Tensor] = []

    def spectrogram(sound: Tensor) -> Tensor:
        heard.append(sound)
        return log_mel(sound)

    monkeypatch.setattr(network, "spectrogram", spectrogram)
    values = objective(clips(network))
    assert len(heard) == 2
    assert heard[0].shape != heard[1].shape or not torch.equal(*heard)
    values["loss"].backward()
    for ear in network.ears:
        assert ear.head.weight.grad is not None
        assert ear.head.weight.grad.abs().max() > 0
        assert ear.encoder.layer1.weight.grad is None
        assert ear.common.any()
    torch.testing.assert_close(values["loss"], 2 * (values["contrast"] + values["presence"]))  # which are means


def test_stage_two_trains_its_own_parts_and_leaves_stage_one() -> None:
    torch.manual_seed(0)
    model = WideSCAV(SMALL)
    objective = Counting(model)
    common = model.ear.common.clone()
    values = objective(clips(model))
    values["loss"].backward()
    reached = {name.split(".")[0] for name, parameter in model.named_parameters() if parameter.grad is not None}
    assert reached == {"count", "apart"}
    assert not model.ear.training
    assert torch.equal(model.ear.common, common)


@given(st.integers(1, 40))
def test_every_clip_is_in_one_picture(count: int) -> None:
    pictures = put_together(count)
    assert [clip for frames in pictures for clip in frames] == list(range(count))
    assert max(map(len, pictures)) <= 4


def test_stage_two_learns_from_lone_frames_what_is_no_second_thing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which picture hears what, how many sound in it, and whether its two things are apart."""
    model = WideSCAV(SMALL)
    objective = Counting(model).eval()
    batch = clips(model, 7)  # two frames, a lone one, four
    asked: list[tuple[int, float]] = []
    monkeypatch.setattr(model, "hear", lambda sounds: sounds.std(1)[:, None, None].expand(-1, 1, 1280))

    def evidence(shown: Tensor, found: object, heard: Tensor) -> Tensor:
        asked.append((shown.shape[-1] // 2, float(heard[0, 0, 0])))
        return torch.full((1, 33), shown.shape[-1] / 2)

    truths: list[Tensor] = []

    def note(odds: Tensor, truth: Tensor, **_: str) -> Tensor:
        truths.append(truth)
        return odds.sum(-1)

    monkeypatch.setattr(model, "evidence", evidence)
    monkeypatch.setattr(F, "cross_entropy", note)
    monkeypatch.setattr(F, "binary_cross_entropy_with_logits", note)
    objective(batch)
    assert [frames for frames, _ in asked] == [2, 1, 4] * 5
    assert truths[0].reshape(5, 2).T.tolist() == [[2, 1, 1, 0, 0]] * 2  # the lone frame is not counted
    assert truths[1].tolist() == [1, 1, 0, 0]
    assert batch.solos is not None
    level = batch.solos[:, 0].std(1)
    heard = torch.tensor([each for _, each in asked]).reshape(5, 3)
    torch.testing.assert_close(heard[1], level[[0, 2, 3]])  # the first of each
    torch.testing.assert_close(heard[2], level[[1, 0, 6]])  # the last; beside a lone frame, another picture's
    torch.testing.assert_close(heard[3], level[[2, 3, 0]])  # another picture's


@torch.no_grad()
def test_what_is_not_apart_is_no_second_source() -> None:
    model = WideSCAV(SMALL).eval()
    seen, heard = model.see(noise(1, 3, 64, 96)), model.hear(0.1 * noise(1, 66_150))
    undecided = model.localise(seen, heard).confidence
    torch.testing.assert_close(undecided, torch.tensor([[6 / 8, 3 / 8]]))  # nothing counts two thirds
    model.apart[1].bias.fill_(5.0)
    torch.testing.assert_close(model.localise(seen, heard).confidence, undecided)  # never more than was counted
    model.apart[1].bias.fill_(-8.0)
    first, second = model.localise(seen, heard).confidence[0]
    assert first == undecided[0, 0]
    assert second < 0.01


@torch.no_grad()
def test_a_file_of_before_counts_as_it_did_and_may_be_trained_on(model: WideSCAV, tmp_path: Path) -> None:
    before = WideSCAV(replace(SMALL, others=0, apart=False)).eval()
    before.count[1].bias.copy_(torch.tensor([0.0, 1.0, 2.0]))
    before.count[0].num_batches_tracked.fill_(150)
    write_model(tmp_path / "before.safetensors", before)
    again = load_model(tmp_path / "before.safetensors")
    assert isinstance(again, WideSCAV)
    seen, heard = model.see(noise(1, 3, 64, 96)), model.hear(0.1 * noise(1, 66_150))
    torch.testing.assert_close(again.localise(seen, heard).confidence, before.localise(seen, heard).confidence)
    fresh = WideSCAV(SMALL)
    fresh.start_from(again)
    assert torch.equal(fresh.ear.head.weight, again.ear.head.weight)
    assert not fresh.count[1].bias.any()
    assert fresh.count[0].num_batches_tracked == 0
    same = WideSCAV(replace(SMALL, others=0, apart=False))
    same.start_from(again)
    assert torch.equal(same.count[1].bias, again.count[1].bias)


def test_what_all_sounds_have_in_common_is_learnt_and_taken_off() -> None:
    torch.manual_seed(0)
    ear = WideSCAV(SMALL).ear
    spectrogram = noise(3, 1, 64, 96)
    directions = ear(spectrogram)
    torch.testing.assert_close(directions.norm(dim=-1), torch.ones(directions.shape[:2]))
    torch.testing.assert_close(ear.common, 0.01 * directions.mean((0, 1)))
    torch.testing.assert_close(ear.eval()(spectrogram), directions - ear.common)


@torch.no_grad()
def test_every_cell_is_guessed_at_more_than_once() -> None:
    torch.manual_seed(0)
    twice, once = Ear("yamnet", 1280, "cells", guesses=2).eval(), Ear("yamnet", 1280, "cells").eval()
    once.encoder.load_state_dict(twice.encoder.state_dict())
    spectrogram = noise(2, 1, 64, 96)
    heard = twice(spectrogram)
    assert heard.shape == (2, 2 * 6, 1280)
    for number in range(2):
        for name, rows in twice.head.state_dict().items():
            once.head.state_dict()[name].copy_(rows.chunk(2)[number])
        torch.testing.assert_close(heard[:, number::2], once(spectrogram))
    mean = Ear("yamnet", 1280, "mean", guesses=3)
    assert mean(spectrogram).shape == (2, 3, 1280)


def test_without_explaining_stage_one_contrasts_whole_sounds_alone(model: WideSCAV) -> None:
    losses = {}
    for weight in (0.0, 0.5):
        network = WideSCAV(replace(SMALL, explaining=weight))
        network.load_state_dict(model.state_dict())
        torch.manual_seed(5)
        losses[weight] = Hearing(network)(clips(model))
    assert "explained" not in losses[0.0]
    torch.testing.assert_close(losses[0.5]["loss"], losses[0.0]["loss"] + 0.5 * losses[0.5]["explained"])


def test_shape_targets_follow_edges(model: WideSCAV) -> None:
    image = noise(2, 3, 64, 64)
    outlined = SHAPE.make(image, model.eye)
    assert outlined.shape == (2, 1, 8, 8)
    assert 0 <= outlined.min() <= outlined.max() <= 1
    assert 0 <= colours(image).min() <= colours(image).max() <= 1
    head = ShapeHead()
    assert not head.fitted
    head(noise(1, MobileNetV2Levels.packed, 2, 2))
    assert head.fitted
    assert head.eval()(noise(1, MobileNetV2Levels.packed, 2, 2)).shape == (1, 1, 8, 8)


def test_it_hears_with_the_encoders_of_other_methods() -> None:
    torch.manual_seed(0)
    config = replace(
        SMALL, audio="mobilenet_v2", audio_weights="visual", spectrogram="mel", frozen_layers=0, augment=False
    )
    network = WideSCAV(config)
    network.load_pretrained(download=False)
    sound = 0.1 * noise(4, 44_100)
    assert network.eval().hear(sound).shape == (4, 2 * 3, 1280)  # 64 mel bands and 87 windows, in cells of 32
    before = network.ear.encoder.features[0][0].weight.detach().clone()
    batch = Batch(sound, torch.zeros(4), features=noise(4, MobileNetV2Levels.packed, 7, 7).relu(), solos=sound[:, None])
    Hearing(network)(batch)["loss"].backward()
    gradient = network.ear.encoder.features[0][0].weight.grad
    assert gradient is not None
    assert gradient.abs().max() > 0  # all of it is trained
    assert torch.equal(before, network.ear.encoder.features[0][0].weight)
    for changes in ({"frozen_layers": 3}, {"spectrogram": "yamnet"}, {"dark": 1.0}, {"dark": -0.1}):
        with pytest.raises(ConfigError, match=next(iter(changes))):
            replace(config, **changes)


def test_what_it_cannot_do_is_refused() -> None:
    method = find_method("scav-wide")
    with pytest.raises(ConfigError, match="trained on clips"):
        method.check(Config(named_config("scav-wide"), DataConfig()))
    with pytest.raises(ConfigError, match="2 or more"):
        replace(SMALL, batch_size=1)
    with pytest.raises(ConfigError, match="3 or less"):
        replace(SMALL, most_sounds=4)


def test_a_missing_or_foreign_yamnet_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOUNDWHERE_WEIGHTS", str(tmp_path))
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    model = WideSCAV(replace(SMALL, audio_weights="yamnet"))
    with pytest.raises(CheckpointError, match=r"yamnet\.safetensors is not in"):
        model.load_pretrained(download=False)
    write_model(tmp_path / "foreign.safetensors", model)
    with pytest.raises(CheckpointError):
        WideSCAV(replace(SMALL, audio_weights=str(tmp_path / "foreign.safetensors"))).load_pretrained(download=False)


@torch.no_grad()
@pytest.mark.parametrize("samples", [0, 100, 10_000, 66_150])
def test_sounds_of_any_length_are_heard(model: WideSCAV, samples: int) -> None:
    heard = model.hear(torch.zeros(1, samples))
    assert heard.isfinite().all()
    found = model.localise(model.see(noise(1, 3, 64, 64)), heard)
    assert found.similarity.isfinite().all()


def test_both_stages_train_and_resume(own_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("soundwhere.methods.scav.strength.STEPS", 10)  # of the head that knows shapes
    monkeypatch.setattr("soundwhere.methods.wide.stages.main_thing", lambda seen: torch.full((len(seen), 1280), 2.0))
    method = replace(SMALL, frame_px=64, steps_one=2, steps_two=2, batch_size=4, batch_size_two=2)
    data = DataConfig(source="real-duet", root=own_root, cache=tmp_path / "cache", silent=1)
    config = Config(method, data, TrainConfig(device="cpu", checkpoint_every_s=0, log_every=1))
    train(config, tmp_path / "whole")
    model = load_model(tmp_path / "whole")
    assert isinstance(model, WideSCAV)
    assert model.shape.fitted
    assert model.others.eq(2).all()
    assert load_model(tmp_path / "whole" / "stage-one.safetensors").sources == 1
    half = replace(config, method=replace(method, steps_two=1))
    train(half, tmp_path / "halves")
    train(config, tmp_path / "halves", resume=True)
    one, other = (read_tensors(tmp_path / run / "latest.safetensors", "model.") for run in ("whole", "halves"))
    assert all(np.array_equal(one[name], other[name]) for name in one)
