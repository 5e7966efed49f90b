"""Who is compared: one budget for all, models that are taken, and what is refused before anything is trained."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from PIL import Image

from soundwhere.analysis.contenders import (
    Contender,
    Facts,
    as_in,
    check_given,
    controlled_files,
    data_digest,
    facts_of,
    labels_of,
    preview,
    read_row,
    take,
    total_steps,
    trained_words,
)
from soundwhere.analysis.trained_rows import check_row, train_row
from soundwhere.config import DataConfig, MethodConfig
from soundwhere.data.synthetic.scenes import WorldScenes
from soundwhere.data.synthetic.world import World
from soundwhere.errors import CheckpointError, ConfigError
from soundwhere.media.audio import write_wav
from soundwhere.methods.catalogue import named_config, read_config
from soundwhere.methods.files import build, load_model, write_model
from soundwhere.training.checkpoint import read_progress
from soundwhere.training.run import BEST, LATEST

if TYPE_CHECKING:
    from soundwhere.config import Config

CONFIGS = Path(__file__).parents[2] / "configs"
FILES = controlled_files(CONFIGS / "rivals", CONFIGS / "real-duet.toml")
RECIPE = read_config(CONFIGS / "real-duet.toml")


@pytest.mark.parametrize("name", FILES)
def test_controlled_files_are_those_of_the_recipe(name: str) -> None:
    """What rows take from the recipe is what their own files say, so that training one by itself is the same."""
    assert as_in(RECIPE, read_config(FILES[name])) == read_config(FILES[name])


@pytest.mark.parametrize("name", FILES)
def test_every_row_has_the_steps_that_it_is_given(name: str) -> None:
    recipe = total_steps(read_row(FILES["scav"], RECIPE, steps=None, seed=None))
    assert total_steps(read_row(FILES[name], RECIPE, steps=None, seed=None)) == recipe  # as many as SCAV
    assert read_row(FILES[name], RECIPE, steps=recipe, seed=None) == read_row(
        FILES[name], RECIPE, steps=None, seed=None
    )
    for steps in (4, 7, 101):
        assert total_steps(read_row(FILES[name], RECIPE, steps=steps, seed=3)) == steps
    assert read_row(FILES[name], RECIPE, steps=4, seed=3).train.seed == 3


def test_what_depends_on_the_number_of_steps_follows_it() -> None:
    fnac: Any = read_row(FILES["fnac"], RECIPE, steps=100, seed=0).method
    assert fnac.contrastive_steps == 10
    slavc: Any = read_row(FILES["slavc"], RECIPE, steps=90, seed=0).method
    assert slavc.slowness == pytest.approx(0.75)  # 1 / (1 - m) stays a 22.5th of the training
    with pytest.raises(ConfigError, match="steps is 3") as caught:
        read_row(FILES["dsol"], RECIPE, steps=3, seed=0)
    assert "4 or more" in caught.value.remedy
    with pytest.raises(ConfigError, match="does not say how its stages share"):
        MethodConfig("toy").lasting(10)


def test_rows_that_are_given_more_say_so(tmp_path: Path) -> None:
    def facts(name: str, **changes: Any) -> Facts:
        with torch.device("meta"):
            return facts_of(build(replace(named_config(name), **changes)))

    assert facts("lvs").kind == facts("scav-tiny").kind == "self-supervised"
    classes = {"classes": ("a", "b")}
    assert facts("avgn", **classes).labels == facts("coarse-to-fine", **classes).labels == "in training and at test"
    assert facts("dsol", **classes).labels == "at test"
    assert facts("dsol").labels == "never"
    assert facts("oa-ssl", captions=tmp_path).labels == "captions in training"
    assert facts("scav-wide").kind == "knows AudioSet"
    assert facts("scav-mobile", audio_weights="ears.pth").audioset == "unknown: starts from ears.pth"
    tiny = build(named_config("scav-tiny"))
    assert facts("scav-tiny").parameters == sum(each.numel() for each in tiny.parameters())


def test_labels_tell_rows_of_one_method_apart(recipe: Config) -> None:
    second = replace(recipe, train=replace(recipe.train, seed=1))
    rows = [Contender("lvs", "runs/lvs"), Contender("scav", recipe), Contender("scav", second)]
    assert labels_of(rows) == ["lvs", "scav, seed 0", "scav, seed 1"]
    assert len({row.folder for row in rows}) == 3


def test_a_model_of_another_method_is_refused_by_name(tmp_path: Path) -> None:
    small: dict[str, Any] = {"visual": "tiny", "audio": "tiny", "visual_weights": "none", "frame_px": 64}
    for name in ("lvs", "ots-ave"):
        write_model(tmp_path / f"{name}.safetensors", build(replace(named_config(name), **small)))
    assert take("lvs", str(tmp_path / "lvs.safetensors")).config.family == "lvs"
    with pytest.raises(CheckpointError, match=r"a model of the method 'lvs', not of 'ez-vsl'") as caught:
        take("ez-vsl", str(tmp_path / "lvs.safetensors"))
    assert "--take lvs=" in caught.value.remedy
    with pytest.raises(CheckpointError, match="method 'ots-ave', not of 'ots'"):
        take("ots", str(tmp_path / "ots-ave.safetensors"))
    with pytest.raises(ConfigError, match="no method 'weather'"):
        take("weather", "x")


def clips(folder: Path, kinds: bool = True) -> DataConfig:
    """Two clips in the layout of real-duet."""
    folder.mkdir()
    for number in range(2):
        Image.fromarray(np.full((8, 8, 3), 60 * number, np.uint8)).save(folder / f"{number}.png")
        write_wav(folder / f"{number}.wav", np.full(70_000, 0.1 * number, np.float32))
    lines = [f"c{n},train,{'bell' if kinds else ''},{n}.png,{n}.wav" for n in range(2)]
    (folder / "clips.csv").write_text("\n".join(["id,split,class,image,audio", *lines, ""]))
    return DataConfig(source="real-duet", root=folder)


def test_data_are_named_by_their_content(tmp_path: Path) -> None:
    one, same = clips(tmp_path / "one"), clips(tmp_path / "same")
    assert data_digest(one) == data_digest(same)
    write_wav(tmp_path / "same" / "1.wav", np.full(70_000, 0.3, np.float32))
    assert data_digest(one) != data_digest(same)
    assert data_digest(DataConfig()) == "made-up"


def test_what_a_method_must_be_given_is_looked_for_first() -> None:
    scenes = WorldScenes(World(5, (64, 128), seconds=0.2), 3)
    task: Any = SimpleNamespace(truths=scenes, benchmark=SimpleNamespace(name="synthetic"))
    with torch.device("meta"):
        knows, solo = (
            build(replace(named_config("avgn"), classes=("bell",))),
            build(replace(named_config("lvs"), queries="solo")),
        )
    check_given("lvs", build(replace(named_config("lvs"), visual="tiny", audio="tiny")), task)
    with pytest.raises(ConfigError, match=r"avgn must be given labels, and does not know the class"):
        check_given("avgn", knows, task)
    check_given("lvs", solo, task)
    mixed = [replace(scene, sounds=scene.mixture[None], kinds=()) for scene in scenes]
    task = SimpleNamespace(truths=mixed, benchmark=SimpleNamespace(name="mixed"))
    with pytest.raises(ConfigError, match="must be given separate sounds"):
        check_given("lvs", solo, task)
    with pytest.raises(ConfigError, match=r"must be given labels, and the scene .* has none"):
        check_given("avgn", knows, task)


def test_a_preview_refuses_what_cannot_be_trained(tmp_path: Path) -> None:
    data = clips(tmp_path / "clips")
    avgn = replace(read_row(FILES["avgn"], RECIPE, steps=2, seed=0), data=data)
    assert preview(avgn).config.classes == ("bell",)
    with pytest.raises(ConfigError, match="has scenes, not clips"):
        preview(replace(avgn, data=DataConfig()))
    with pytest.raises(ConfigError, match="needs the embeddings of captions"):
        preview(replace(read_row(FILES["oa-ssl"], RECIPE, steps=2, seed=0), data=data))


def test_a_row_killed_between_its_stages_goes_on(
    recipe: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr("soundwhere.methods.scav.stages.SCAVStage.prepare", _killed)
        with pytest.raises(KeyboardInterrupt):
            train_row(recipe, tmp_path / "row")
    assert read_progress(tmp_path / "row" / LATEST)[1].stage == "one"
    assert train_row(recipe, tmp_path / "row") == tmp_path / "row" / BEST
    assert train_row(recipe, tmp_path / "whole") == tmp_path / "whole" / BEST
    rows = (load_model(tmp_path / name).state_dict() for name in ("row", "whole"))
    torch.testing.assert_close(*rows, rtol=0, atol=0)


def _killed(stage: Any, *_: Any) -> None:
    if stage.name == "two":
        raise KeyboardInterrupt


def test_a_row_that_takes_too_long_stops_and_may_go_on(recipe: Config, tmp_path: Path) -> None:
    longer = replace(recipe, method=replace(recipe.method, steps_one=3))  # type: ignore[call-arg]
    row = tmp_path / "row"
    file = train_row(longer, row, longest_s=1e-6)
    assert file == row / LATEST
    _, progress = read_progress(file)
    assert (progress.stage, progress.step) == ("one", 2)  # time is up after the first step; the next one ends it
    assert "stopped after 2 of 5 steps" in trained_words(longer, progress.stage, progress.step, progress.seconds)
    before = file.stat().st_mtime_ns
    assert train_row(longer, row, longest_s=1e-6) == file
    assert file.stat().st_mtime_ns == before
    assert train_row(longer, row) == row / BEST
    _, progress = read_progress(row / LATEST)
    assert trained_words(longer, progress.stage, progress.step, 90) == "seed 0, 5 steps in 1.5 min"
    train_row(longer, tmp_path / "whole")
    rows = (load_model(tmp_path / name).state_dict() for name in ("row", "whole"))
    torch.testing.assert_close(*rows, rtol=0, atol=0)


def test_other_data_are_refused(recipe: Config, tmp_path: Path) -> None:
    train_row(recipe, tmp_path, data="these")
    check_row(recipe, tmp_path, data="these")
    check_row(recipe, tmp_path)
    with pytest.raises(ConfigError, match="the data it is trained on") as caught:
        train_row(recipe, tmp_path, data="those")
    assert "--out" in caught.value.remedy
