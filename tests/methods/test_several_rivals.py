"""Rivals that answer for several sources: they train as published, resume exactly, and refuse what they cannot do.

Those that are self-supervised never see a label; those that read labels know their classes from the clips.
"""

from __future__ import annotations

from dataclasses import fields, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from soundwhere.config import Config, DataConfig, MethodConfig, TrainConfig
from soundwhere.data.training_scenes import make_clips
from soundwhere.errors import CheckpointError, ConfigError, DataError
from soundwhere.methods.catalogue import METHODS, NAMES, find_method, is_named, named_config, read_config
from soundwhere.methods.files import build, load_model, read_tensors
from soundwhere.methods.method import Given
from soundwhere.methods.published import DROPPED, read_published
from soundwhere.models.encoders import build_visual
from soundwhere.training import loop
from soundwhere.training.loop import make_optimiser
from soundwhere.training.run import train
from soundwhere.types import Batch

if TYPE_CHECKING:
    from collections.abc import Callable

    Whole = Callable[[str], tuple[Path, list[Batch]]]

SELF_SUPERVISED = ("mix-and-localize", "noprior", "noprior-dual", "jsa", "oa-ssl", "dsol")
LABELLED = ("avgn", "coarse-to-fine")
RIVALS = (*SELF_SUPERVISED, *LABELLED)
FOLDER = Path(__file__).parents[2] / "configs" / "rivals"
CLASSES = ("bell", "drum", "horn")  # of the clips


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A file for visual encoders that must start from something."""
    path = tmp_path_factory.mktemp("weights") / "visual.safetensors"
    torch.manual_seed(0)
    save_file(build_visual("tiny").state_dict(), path)
    return str(path)


def changed(config: MethodConfig, **changes: Any) -> Any:
    """The configuration with those of the changes that it knows."""
    known = {field.name for field in fields(config)}
    return replace(config, **{name: value for name, value in changes.items() if name in known})


def small(name: str, clips: Path, weights: str, **changes: Any) -> Config:
    """A published configuration with small encoders and frames; front end, heads and losses stay."""
    published = read_config(FOLDER / f"{name}.toml")
    sizes = {
        "visual": "tiny",
        "audio": "tiny",
        "visual_weights": weights,
        "fine_grid": False,
        "frame_px": 64,
        "dimension": 16,
        "hidden": 16,
        "batch_size": 4,
        "steps": 2,
        "steps_two": 2,
        "steps_round": 1,
        "steps_class": 1,
        "rounds": 2,
        "clusters": 3,
        "reciprocal": 2,
        "captions": clips / "captions.npz",
    }
    data = replace(published.data, source="real-duet", root=clips, cache=clips.parent / "cache")
    method = changed(published.method, **(sizes | changes))
    return Config(method, data, TrainConfig(device="cpu", checkpoint_every_s=0, log_every=1))


def same(one: Path, other: Path) -> bool:
    mine, theirs = read_tensors(one, ""), read_tensors(other, "")
    return mine.keys() == theirs.keys() and all(torch.equal(mine[name], theirs[name]) for name in mine)


@pytest.fixture(scope="module")
def whole(clips: Path, weights: str, tmp_path_factory: pytest.TempPathFactory) -> Whole:
    """Trains a rival without interruption, once for all tests: the folder, and the batches it was given."""

    @cache
    def trained(name: str) -> tuple[Path, list[Batch]]:
        given: list[Batch] = []
        backward = loop._backward

        def noted(parallel: Any, batch: Batch, *rest: Any) -> Any:
            given.append(batch)
            return backward(parallel, batch, *rest)

        folder = tmp_path_factory.mktemp("whole") / name
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(loop, "_backward", noted)
            train(small(name, clips, weights), folder)
        return folder, given

    return trained


def stopped_after(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a run die after so many checkpoints."""
    from soundwhere.training import run

    save = run.save_checkpoint
    left = [count]

    def dying(*arguments: Any) -> None:
        save(*arguments)
        left[0] -= 1
        if not left[0]:
            raise KeyboardInterrupt

    monkeypatch.setattr(run, "save_checkpoint", dying)


@pytest.mark.parametrize("name", RIVALS)
def test_it_trains_as_published_and_resumes_exactly(
    name: str, clips: Path, weights: str, whole: Whole, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = small(name, clips, weights)
    folder, _ = whole(name)
    stages = find_method(config.method.family).stages(config.method)
    steps = sum(stage.phases[-1].until for stage in stages)
    for number in range(max(1, steps - 3), steps):  # killed in the middle of the last stage, and between stages
        with monkeypatch.context() as patched:
            stopped_after(number, patched)
            with pytest.raises(KeyboardInterrupt):
                train(config, tmp_path / f"{number}")
        train(config, tmp_path / f"{number}", resume=True)
        assert same(folder / "latest.safetensors", tmp_path / f"{number}" / "latest.safetensors"), number
    network = load_model(folder)
    begun = build(network.config)
    assert any(not torch.equal(tensor, begun.state_dict()[key]) for key, tensor in network.state_dict().items())


@pytest.mark.parametrize("name", RIVALS)
def test_only_those_that_say_so_see_labels(name: str, whole: Whole) -> None:
    _, given = whole(name)
    assert given
    for batch in given:
        assert (batch.labels is not None) == (name in LABELLED)
        assert (batch.captions is not None) == (name == "oa-ssl")
        assert (batch.moments is not None) == (name == "mix-and-localize")
        assert batch.targets is None


@pytest.mark.parametrize("name", sorted({*NAMES, *METHODS}))
def test_nobody_else_asks_for_labels(name: str) -> None:
    config = named_config(name) if is_named(name) else find_method(name).config()
    asked = [phase.needs.labels for stage in find_method(config.family).stages(config) for phase in stage.phases]
    assert asked
    assert any(asked) == (name in LABELLED)


def test_clips_have_no_labels_unless_they_are_asked_for(clips: Path) -> None:
    data = DataConfig(source="real-duet", root=clips)
    assert make_clips(data).kinds is None
    assert set(make_clips(data, labels=True).kinds or ()) == set(CLASSES)


@pytest.mark.parametrize("name", ["dsol"])
def test_its_weights_do_not_depend_on_labels(
    name: str, clips: Path, weights: str, whole: Whole, tmp_path: Path
) -> None:
    """Labels only say what clusters stand for, which is asked at test alone."""
    table = (clips / "clips.csv").read_text()
    config = small(name, clips, weights)
    folder, _ = whole(name)
    try:
        (clips / "clips.csv").write_text(table.replace("horn", "drum").replace("bell", "horn"))
        train(config, tmp_path / "wrong")
    finally:
        (clips / "clips.csv").write_text(table)
    right, wrong = (read_tensors(run / "latest.safetensors", "model.") for run in (folder, tmp_path / "wrong"))
    assert right.pop("stands").shape == (3, 3)
    assert wrong.pop("stands").shape == (2, 3)
    assert all(torch.equal(tensor, wrong[key]) for key, tensor in right.items())


@pytest.mark.parametrize("name", RIVALS)
def test_it_answers_for_any_number_of_sources(name: str, clips: Path, weights: str) -> None:
    torch.manual_seed(0)
    method = find_method(small(name, clips, weights).method.family)
    network = method.build(method.check(small(name, clips, weights)).method).eval()
    assert network.note
    assert ("labels" in network.needs) == (name in (*LABELLED, "dsol"))
    with torch.no_grad():
        seen, heard = network.see(torch.randn(2, 3, 64, 128)), network.hear(torch.randn(2, 66_150) / 10)
        assert network.localise(seen, heard).similarity.shape[1] == network.sources
        for sources in (1, 2, 3):
            labels = Given(labels=[["drum", "bell"], ["horn", "bell"]]) if "labels" in network.needs else None
            for given in (None, labels):
                found = network.localise(seen, heard, sources, given)
                assert found.similarity.shape == (2, sources, 4, 8)
                assert found.similarity.isfinite().all()
                assert found.similarity.abs().max() <= 1 + 1e-5
                assert found.confidence.shape == (2, sources)
                assert ((found.confidence >= 0) & (found.confidence <= 1)).all()
                assert found.embeddings.shape[:2] == (2, sources)
        for control in network.controls:
            assert control.answer(network, seen, heard, (1, 2)).shape == (2, 1, 4, 8)


@pytest.mark.parametrize("name", [name for name in RIVALS if name != "noprior"])  # which, untrained, finds nothing
def test_its_answer_listens(name: str, clips: Path, weights: str) -> None:
    torch.manual_seed(0)
    method = find_method(small(name, clips, weights).method.family)
    network = method.build(method.check(small(name, clips, weights)).method).eval()
    if name == "dsol":
        network.dictionary.copy_(torch.rand_like(network.dictionary))
    with torch.no_grad():
        seen = network.see(torch.randn(1, 3, 64, 128))
        one, other = (network.localise(seen, network.hear(sound)) for sound in torch.randn(2, 1, 66_150) / 10)
    assert not torch.equal(one.similarity, other.similarity)


@pytest.mark.parametrize("name", [name for name in RIVALS if name != "noprior-dual"])  # the same network
def test_with_its_real_encoders_it_takes_a_step(name: str) -> None:
    """Encoders, front end and frame as published, on two scenes."""
    torch.manual_seed(0)
    config = changed(named_config(name), classes=CLASSES, caption_width=10)
    network = build(config).train()
    (*_, stage) = find_method(config.family).stages(config)
    objective = stage.objective(network)
    solos = torch.randn(2, 2, 66_150) / 10
    batch = Batch(
        solos.sum(1),
        torch.randn(2, 3, config.frame_px, config.frame_px),
        solos=solos,
        moments=torch.randn(2, 1, 1, 66_150) / 10,
        labels=torch.tensor([[0, 1], [1, 2]]),
        captions=torch.randn(2, 1, 3, 10),
    )
    values = objective(batch)
    assert values["loss"].isfinite()
    values["loss"].backward()
    trained = [parameter for parameter in network.parameters() if parameter.requires_grad]
    assert all(parameter.grad is not None and parameter.grad.isfinite().all() for parameter in trained)
    before = trained[0].detach().clone()
    make_optimiser(objective, stage.schedule).step()
    assert not torch.equal(trained[0], before)


@pytest.mark.parametrize("name", ["mix-and-localize", "coarse-to-fine"])
def test_a_released_file_is_read_as_it_is(name: str, tmp_path: Path) -> None:
    config = changed(named_config(name), classes=CLASSES)
    torch.manual_seed(0)
    network = build(config)
    tensors = {}
    for own, tensor in network.state_dict().items():
        fitting = [(ours, theirs) for theirs, ours in network.published.items() if own.startswith(ours)]
        ours, theirs = max(fitting, key=lambda pair: len(pair[0]))
        tensors[f"module.{theirs}{own.removeprefix(ours)}"] = tensor
    idle = [theirs for theirs, ours in network.published.items() if ours == DROPPED]
    torch.save(tensors | {f"module.{name}weight": torch.zeros(2) for name in idle}, tmp_path / "released.pth")
    again = read_published(config.family, tmp_path / "released.pth", config)
    assert all(torch.equal(tensor, again.state_dict()[own]) for own, tensor in network.state_dict().items())
    del tensors["module.fc_a_2.0.bias" if name == "mix-and-localize" else "module.project_a.0.weight"]
    torch.save(tensors, tmp_path / "less.pth")
    with pytest.raises(CheckpointError, match="1 missing"):
        read_published(config.family, tmp_path / "less.pth", config)


@pytest.mark.parametrize("name", RIVALS)
def test_its_published_configuration_is_its_defaults(name: str) -> None:
    config = read_config(FOLDER / f"{name}.toml")
    assert config.method == named_config(name)
    assert config.data.source == ("real-duet" if name in LABELLED else "folder")


@pytest.mark.parametrize("name", [name for name in RIVALS if name != "noprior-dual"])
def test_its_controlled_configuration_shares_all_but_head_loss_and_inference(name: str) -> None:
    ours = read_config(FOLDER.parent / "real-duet.toml")
    rival = read_config(FOLDER / f"{name}-controlled.toml")
    method, scav = rival.method, ours.method
    shared = (
        *(
            "visual",
            "audio",
            "visual_weights",
            "audio_weights",
            "freeze_visual",
            "fine_grid",
            "spectrogram",
            "frame_px",
        ),
        *("batch_size", "learning_rate", "schedule", "warmup_steps", "clip_norm", "blank"),
    )
    assert {key: getattr(method, key) for key in shared} == {key: getattr(scav, key) for key in shared}
    stages = find_method(method.family).stages(method)
    assert sum(stage.phases[-1].until for stage in stages) == scav.steps_one + scav.steps_two
    for stage in stages:
        assert (stage.schedule.optimiser, stage.schedule.weight_decay) == ("adam", 0.0)
        assert stage.schedule.learning_rate == scav.learning_rate
    assert method.augment == "none"
    assert (rival.data.source, rival.data.split, rival.data.level, rival.data.gain_db) == (
        *(ours.data.source, ours.data.split, ours.data.level, ours.data.gain_db),
    )


@pytest.mark.parametrize("name", [name for name in RIVALS if name not in ("noprior-dual", "jsa", "oa-ssl")])
def test_native_mixtures_are_refused_where_sounds_must_be_apart(
    name: str, clips: Path, weights: str, tmp_path: Path
) -> None:
    config = small(name, clips, weights)
    config = replace(config, data=replace(config.data, source="folder", mixtures="native"))
    with pytest.raises(ConfigError, match="have none") as caught:
        train(config, tmp_path / "run")
    assert caught.value.remedy
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", LABELLED)
@pytest.mark.parametrize("source", ["folder", "synthetic", "made-up"])
def test_clips_without_classes_are_refused_before_training(
    name: str, source: str, clips: Path, weights: str, tmp_path: Path
) -> None:
    config = small(name, clips, weights)
    changes: dict[str, Any] = {"made_up": 2} if source == "made-up" else {"source": source}
    config = replace(config, data=replace(config.data, **changes))
    with pytest.raises(ConfigError) as caught:
        train(config, tmp_path / "run")
    assert "real-duet" in caught.value.remedy
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", ["mix-and-localize", "oa-ssl"])
def test_what_only_clips_have_is_not_looked_for_in_the_made_up_world(
    name: str, clips: Path, weights: str, tmp_path: Path
) -> None:
    config = small(name, clips, weights)
    config = replace(config, data=replace(config.data, source="synthetic", scenes=4))
    with pytest.raises(ConfigError, match=r"trains on clips|has scenes, not clips"):
        train(config, tmp_path)


@pytest.mark.parametrize("name", ["noprior", "jsa", "dsol"])
def test_the_made_up_world_will_do_for_the_others(name: str, clips: Path, weights: str, tmp_path: Path) -> None:
    config = small(name, clips, weights)
    config = replace(config, data=replace(config.data, source="synthetic", scenes=4, layouts=("side-by-side",)))
    network = load_model(train(config, tmp_path))
    assert not network.needs


def test_captions_must_be_given_and_cover_the_clips(clips: Path, weights: str, tmp_path: Path) -> None:
    config = small("oa-ssl", clips, weights)
    with pytest.raises(ConfigError, match="needs the embeddings of captions") as caught:
        train(replace(config, method=replace(config.method, captions=None)), tmp_path / "run")
    assert "--captions" in caught.value.remedy
    np.savez(tmp_path / "few.npz", names=["0.png"], foreground=np.ones((1, 1, 4)), background=np.ones((1, 4)))
    with pytest.raises(DataError, match=r"no captions of 1\.png, 10\.png, 11\.png and 8 more"):
        train(replace(config, method=replace(config.method, captions=tmp_path / "few.npz")), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_dsol_trains_without_classes_and_then_answers_without_labels(clips: Path, weights: str, tmp_path: Path) -> None:
    config = small("dsol", clips, weights)
    folder = tmp_path / "folder"
    folder.mkdir()
    for path in clips.glob("*.[pw][na][gv]"):
        (folder / path.name).symlink_to(path)
    train(replace(config, data=replace(config.data, source="folder", root=folder)), tmp_path / "run")
    network = load_model(tmp_path / "run")
    assert network.config.classes == ()
    assert network.note == "clusters heard most surely"
    seen, heard = network.see(torch.randn(1, 3, 64, 64)), network.hear(torch.randn(1, 66_150) / 10)
    assert network.localise(seen, heard).similarity.shape == (1, 2, 4, 4)
    with pytest.raises(DataError, match="not trained on the class 'bell'"):
        network.localise(seen, heard, 1, Given(labels=[["bell"]]))


def test_classes_are_kept_in_the_checkpoint(whole: Whole) -> None:
    for name in (*LABELLED, "dsol"):
        folder, _ = whole(name)
        assert load_model(folder).config.classes == CLASSES
