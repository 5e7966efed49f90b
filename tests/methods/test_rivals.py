"""Every rival as published and controlled: it starts, trains, resumes exactly, answers, and never sees a label."""

from __future__ import annotations

import math
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from safetensors.torch import save_file

from soundwhere.config import Config, DataConfig, MethodConfig, TrainConfig
from soundwhere.media.front_ends import FRONT_ENDS
from soundwhere.methods.catalogue import METHODS, find_method, named_config, read_config
from soundwhere.methods.files import build, load_model, read_tensors
from soundwhere.methods.method import Given
from soundwhere.models.encoders import build_audio, build_visual
from soundwhere.training.run import train

if TYPE_CHECKING:
    from soundwhere.types import Batch

RIVALS = (
    *("lvs", "ez-vsl", "slavc", "fnac", "ssl-tie", "attention10k", "attention10k-original", "ots", "ots-ave"),
    *("dmc", "dmc-duet"),
)
FOLDER = Path(__file__).parents[2] / "configs" / "rivals"


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Files for encoders that must start from something."""
    folder = tmp_path_factory.mktemp("weights")
    torch.manual_seed(0)
    for sense, encoder in (("visual", build_visual("tiny")), ("audio", build_audio("tiny"))):
        save_file(encoder.state_dict(), folder / f"{sense}.safetensors")
    return {sense: str(folder / f"{sense}.safetensors") for sense in ("visual", "audio")}


def changed(config: MethodConfig, **changes: Any) -> Any:
    """The configuration with those of the changes that it knows."""
    known = {field.name for field in fields(config)}
    return replace(config, **{name: value for name, value in changes.items() if name in known})


def tiny(name: str, weights: dict[str, str], **changes: Any) -> Any:
    """A published configuration with small encoders and frames; front end, head and loss stay."""
    small = {"visual": "tiny", "audio": "tiny", "frame_px": 64, "dimension": 16, "batch_size": 4}
    published = named_config(name)
    starts = {
        sense: weights[sense.removesuffix("_weights")]
        for sense in ("visual_weights", "audio_weights")
        if getattr(published, sense) != "none"
    }
    return changed(published, **small, **starts, **changes)


def settings(method: Any, clips: Path) -> Config:
    """Trained on clips that have classes, which nobody here may see."""
    data = DataConfig(source="real-duet", root=clips, cache=clips.parent / "cache")
    return Config(method, data, TrainConfig(device="cpu", checkpoint_every_s=0, log_every=1))


def same(one: Path, other: Path) -> bool:
    mine, theirs = read_tensors(one, ""), read_tensors(other, "")
    return mine.keys() == theirs.keys() and all(torch.equal(mine[name], theirs[name]) for name in mine)


@pytest.mark.parametrize("name", RIVALS)
def test_it_trains_resumes_exactly_answers_and_never_sees_a_label(
    name: str, clips: Path, weights: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tiny(name, weights, steps=3, contrastive_steps=1)
    method: Any = find_method(config.family)
    batches: list[Batch] = []

    def watched(network: Any, batch: Batch) -> dict[str, torch.Tensor]:
        batches.append(batch)
        losses: dict[str, torch.Tensor] = method.loss(network, batch)
        return losses

    monkeypatch.setitem(METHODS, config.family, replace(method, loss=watched))
    train(settings(config, clips), tmp_path / "whole")
    train(settings(replace(config, steps=2), clips), tmp_path / "halves")
    train(settings(config, clips), tmp_path / "halves", resume=True)
    assert same(tmp_path / "whole" / "latest.safetensors", tmp_path / "halves" / "latest.safetensors")
    assert len(batches) == 6
    assert all(batch.labels is None and batch.targets is None for batch in batches)

    network = load_model(tmp_path / "whole")
    assert "labels" not in network.needs
    assert network.note
    seen, heard = network.see(torch.randn(2, 3, 64, 128)), network.hear(torch.randn(2, 66_150) / 10)
    found = network.localise(seen, heard, 2)
    assert found.similarity.shape == (2, 2, 4, 8)
    assert found.similarity.isfinite().all()
    assert found.similarity.min() >= -1 - 1e-5
    assert found.similarity.max() <= 1 + 1e-5
    assert found.confidence.shape == (2, 2)
    assert ((found.confidence >= 0) & (found.confidence <= 1)).all()
    for control in network.controls:
        assert control.answer(network, seen, heard, (1, 2)).shape[0] == 2


LONG = {"lvs", "ssl-tie"}  # hear 10 s


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n in LONG else n for n in RIVALS])
def test_as_published_it_takes_two_steps(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With its real encoders, front end and frame, on two clips; of 10 s, the second step hears 3."""
    torch.manual_seed(0)
    config = changed(named_config(name), steps=2)
    network = build(config).train()
    method: Any = find_method(config.family)
    from soundwhere.types import Batch

    batch = Batch(torch.randn(2, 66_150) / 10, torch.randn(2, 3, config.frame_px, config.frame_px))
    optimiser = torch.optim.Adam([p for p in network.parameters() if p.requires_grad], lr=config.learning_rate)
    for longest_s in (math.inf, 3.0):
        for hears, form in FRONT_ENDS.items():
            monkeypatch.setitem(FRONT_ENDS, hears, replace(form, seconds=min(form.seconds, longest_s)))
        values = method.loss(network, batch)
        assert values["loss"].isfinite()
        optimiser.zero_grad()
        values["loss"].backward()
        assert all(p.grad is None or p.grad.isfinite().all() for p in network.parameters())
        optimiser.step()


@pytest.mark.parametrize("name", RIVALS)
def test_solo_queries_give_a_map_for_every_sound(name: str, weights: dict[str, str]) -> None:
    torch.manual_seed(0)
    network = build(tiny(name, weights, queries="solo")).eval()
    assert network.needs == {"sounds"}
    assert network.note.startswith("solo queries")
    sounds = torch.randn(2, 2, 66_150) / 10
    with torch.no_grad():
        seen, heard = network.see(torch.randn(2, 3, 64, 64)), network.hear(sounds.sum(1))
        found = network.localise(seen, heard, given=Given(sounds=sounds))
        alone = network.answer(seen, network.hear(sounds[:, 1]))
    per_sound = network.sources
    assert found.similarity.shape[1] == 2 * per_sound
    torch.testing.assert_close(found.similarity[:, per_sound:], alone.similarity)


def test_it_trains_with_solo_queries_too(clips: Path, weights: dict[str, str], tmp_path: Path) -> None:
    train(settings(tiny("ez-vsl", weights, queries="solo", steps=1), clips), tmp_path)
    assert load_model(tmp_path).needs == {"sounds"}


@pytest.mark.parametrize("name", RIVALS)
def test_its_published_configuration_is_its_defaults(name: str) -> None:
    config = read_config(FOLDER / f"{name}.toml")
    assert config.method == named_config(name)
    assert config.data.source == "folder"


@pytest.mark.parametrize("name", RIVALS)
def test_its_controlled_configuration_shares_all_but_head_loss_and_inference(name: str) -> None:
    ours = read_config(FOLDER.parent / "real-duet.toml")
    rival = read_config(FOLDER / f"{name}-controlled.toml")
    method: Any = rival.method
    scav: Any = ours.method
    shared = (
        *("visual", "audio", "visual_weights", "audio_weights", "freeze_visual", "fine_grid", "spectrogram"),
        *("frame_px", "batch_size", "learning_rate", "schedule", "warmup_steps", "clip_norm", "blank"),
    )
    assert {key: getattr(method, key) for key in shared} == {key: getattr(scav, key) for key in shared}
    assert method.steps == scav.steps_one + scav.steps_two
    assert (method.weight_decay, method.optimiser, method.augment) == (0.0, "adam", "none")
    assert (rival.data.source, rival.data.split, rival.data.level, rival.data.gain_db) == (
        *(ours.data.source, ours.data.split, ours.data.level, ours.data.gain_db),
    )
    if method.name != "dmc-duet":
        assert rival.data.interference == ours.data.interference


def test_every_file_belongs_to_a_rival() -> None:
    known = {*METHODS} | {method.name for family in METHODS for method in find_method(family).named.values()}
    for path in FOLDER.glob("*.toml"):
        assert path.stem.removesuffix("-controlled") in known
