"""Methods and configurations by name, and settings from TOML: what makes no sense is named with its file and key."""

from __future__ import annotations

import dataclasses
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from soundwhere.config import Config, DataConfig, MethodConfig, Thresholds, TrainConfig, to_dict
from soundwhere.errors import ConfigError
from soundwhere.methods.catalogue import (
    METHODS,
    NAMES,
    config_from,
    default_config,
    find_method,
    is_named,
    named_config,
    read_config,
    upgraded,
)
from soundwhere.methods.scav.config import NAMED, SCAVConfig

CONFIGS = sorted((Path(__file__).parents[2] / "configs").glob("*.toml"))
FIRST_FORMAT = sorted((Path(__file__).parent / "first_format").glob("*.toml"))


@pytest.mark.parametrize("family", list(METHODS))
def test_every_method_says_what_it_is(family: str) -> None:
    method = find_method(family)
    assert issubclass(method.config, MethodConfig)
    assert method.config().family == family
    assert all(config.family == family and config.name == name for name, config in method.named.items())
    assert {name for name, owner in NAMES.items() if owner == family} == set(method.named) - {family}


@pytest.mark.parametrize("name", list(NAMES))
def test_every_name_has_a_configuration(name: str) -> None:
    assert is_named(name)
    assert named_config(name) is find_method(NAMES[name]).named[name]


def test_unknown_names_list_those_there_are() -> None:
    for name in ("scav", "scav-huge", ""):  # a family is not a model, unless it has one of its name
        assert not is_named(name)
        with pytest.raises(ConfigError, match=f"There is no model named '{name}'") as caught:
            named_config(name)
        assert "scav-r18, scav-mobile, scav-tiny" in caught.value.remedy
    with pytest.raises(ConfigError, match="There is no method 'psychic'") as caught:
        find_method("psychic")
    assert "scav" in caught.value.remedy


def literal(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{', '.join(map(literal, value))}]"
    return f'"{value}"' if isinstance(value, str) else repr(value)


def toml(values: dict[str, Any], section: str = "") -> str:
    lines = [f"{key} = {literal(value)}" for key, value in values.items() if not isinstance(value, dict)]
    for key, value in values.items():
        if isinstance(value, dict):
            name = f"{section}{key}"
            lines += [f"[{name}]", toml(value, f"{name}.")]
    return "\n".join(lines)


@pytest.mark.parametrize("name", list(NAMED))
def test_round_trip_through_a_file(tmp_path: Path, name: str) -> None:
    method = replace(NAMED[name], pooling="max", thresholds=Thresholds(positive=0.7), stage="joint", learning_rate=3e-4)
    config = Config(
        method,
        DataConfig(source="folder", root=Path("a folder"), layouts=("stacked", "grid"), silent=2),
        TrainConfig(precision="bf16", seed=7),
    )
    (tmp_path / "all.toml").write_text(toml(to_dict(config)))
    assert read_config(tmp_path / "all.toml") == config


def test_a_name_brings_the_rest_of_its_model(tmp_path: Path) -> None:
    path = tmp_path / "some.toml"
    path.write_text('[method]\nname = "scav-mobile"\ndimension = 128\nlearning_rate = 1\n[train]\nseed = 3\n')
    config = read_config(path)
    assert config.method == replace(NAMED["scav-mobile"], dimension=128, learning_rate=1.0)
    assert config.train == TrainConfig(seed=3)
    path.write_text("")
    assert read_config(path) == default_config() == Config(method=SCAVConfig())
    path.write_text('[method]\nfamily = "scav"\nname = "mine"\nblank = 3\n')  # a name of one's own
    assert read_config(path).method == SCAVConfig(name="mine", blank=3)


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_the_configurations_that_come_along_are_read(path: Path) -> None:
    config = read_config(path)
    assert is_named(config.method.name)
    assert set(tomllib.loads(path.read_text())) <= {"method", "data", "train"}  # in the sections of today
    assert config_from(to_dict(config), "again") == config


def test_defaults_are_the_papers() -> None:
    config = default_config().method
    assert isinstance(config, SCAVConfig)
    assert (config.visual, config.audio, config.dimension) == ("resnet18", "resnet18", 512)
    assert (config.decoupler_layers, config.decoupler_heads) == (4, 8)
    assert config.thresholds == Thresholds(0.65, 0.4, 0.03)
    assert (config.learning_rate, config.batch_size) == (1e-4, 256)
    assert config == NAMED["scav-r18"] == SCAVConfig()


MISTAKES = [
    ("[method\n", "is not valid TOML.*line 1", "Correct"),
    ("[train]\nseed = 1\nseed = 2\n", "is not valid TOML", "Correct"),
    ("[mdel]\n", "unknown setting 'mdel'", "method, data, train"),
    ("[train]\nepochs = 3\n", "train: unknown setting 'epochs'", "seed"),
    ("[method]\nepochs = 3\n", "method: unknown setting 'epochs'", "steps_one"),
    ("[method.thresholds]\nlow = 3\n", "method: thresholds: unknown setting 'low'", "positive"),
    ("[method]\nbatch_size = 2.5\n", r"method: batch_size is 2\.5, which is not of type int", "Correct"),
    ("[method]\nbatch_size = true\n", "method: batch_size is True, which is not of type int", "Correct"),
    ("[method]\nlearning_rate = '1e-3'\n", "method: learning_rate is '1e-3', which is not of type float", "Correct"),
    ("[method]\nfreeze_visual = 1\n", "method: freeze_visual is 1, which is not of type bool", "Correct"),
    ("[data]\nroot = 3\n", "data: root is 3, which is not of type Path", "Correct"),
    ("[data]\nlayouts = 'grid'\n", "data: layouts is 'grid', which is not of type tuple", "Correct"),
    ("[data]\nlayouts = ['ring']\n", "data: layouts is 'ring'", "side-by-side, stacked, grid"),
    ("[method]\nstage = 'three'\n", "method: stage is 'three'", "one, two, both, joint"),
    ("[method]\nstage = ['one']\n", "method: stage is ", "one, two, both, joint"),
    ("method = 3\n", "method is 3", r"\[method\]"),
    ("data = 3\n", "data is 3, which is not of type DataConfig", "Correct"),
    ("[method]\nname = 'scav-huge'\n", "no model named 'scav-huge'", "scav-r18, scav-mobile, scav-tiny"),
    ("[method]\nname = ['scav-r18']\n", "method: name is", "Correct"),
    ("[method]\nfamily = 'psychic'\n", "there is no method 'psychic'", "scav"),
    ("[method]\nfamily = 3\n", "method: family is 3", "scav"),
    ("[method]\nframe_px = 0\n", "method: frame_px is 0", "greater than 0"),
    ("[method]\ndimension = 100\n", "method: dimension is 100", "multiple of 4 and of the 8"),
    ("[method]\ndecoupler_heads = 0\n", "method: decoupler_heads is 0", "1 or more"),
    ("[method.thresholds]\ntemperature = 0\n", r"thresholds: temperature is 0\.0", "greater than 0"),
    ("[method]\nsingle_fraction = 1.5\n", r"method: single_fraction is 1\.5", "between 0 and 1"),
    ("[data]\nlayouts = []\n", "data: layouts is", "at least one"),
    ("[train]\nlog_every = 0\n", "train: log_every is 0", "1 or more"),
    ("[method]\nlearning_rate = nan\n", "method: learning_rate is nan", "a finite number"),
    ("[train]\nseed = -1\n", "train: seed is -1", "0 or more"),
    ("[method]\nlearning_rate = inf\n", "method: learning_rate is inf, which is too large", "Correct"),
    (f"[method]\nlearning_rate = {'9' * 400}\n", "method: learning_rate is 9+.*too large", "Correct"),
    (f"[method]\nbatch_size = {'9' * 400}\n", "method: batch_size is 9+.*too large", "Correct"),
    (f"[train]\nseed = {'9' * 5000}\n", "is not valid TOML", "Correct"),
    (f"a = {'[' * 5000}", "is not valid TOML", "Correct"),
    # in the sections of the first format, the setting is named where it is today
    ("[train]\nbatch_size = 2.5\n", r"method: batch_size is 2\.5, which is not of type int", "Correct"),
    ("[model]\nname = 'scav-huge'\n", "no model named 'scav-huge'", "scav-tiny"),
    ("[loss]\ncolour = 'red'\n", "method: unknown setting 'colour'", "blank"),
    ("[data]\nsingle_fraction = 2\n", r"method: single_fraction is 2\.0", "between 0 and 1"),
    ("model = 3\n", "unknown setting 'model'", "method, data, train"),
    ("loss = 'paper'\n", "unknown setting 'loss'", "method, data, train"),
    ("train = 3\n", "train is 3, which is not of type TrainConfig", "Correct"),
]


@pytest.mark.parametrize(("text", "message", "remedy"), MISTAKES, ids=range(len(MISTAKES)))
def test_mistakes_are_named_with_file_and_key(tmp_path: Path, text: str, message: str, remedy: str) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=rf"bad\.toml.*{message}") as caught:
        read_config(path)
    assert remedy.replace("\\", "") in caught.value.remedy
    assert "\n" not in caught.value.message


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    for path, message in (
        (tmp_path / "none.toml", "does not exist"),
        (tmp_path, r"cannot be read: Is a directory\."),
        (tmp_path / "binary.toml", "cannot be read: it is not text in UTF-8"),
    ):
        with pytest.raises(ConfigError, match=message) as caught:
            read_config(path)
        assert "TOML file" in caught.value.remedy


# The first format: [model], [loss], [data] and [train], SCAV alone


@pytest.mark.parametrize("path", FIRST_FORMAT, ids=lambda path: path.stem)
def test_a_file_of_the_first_format_sets_what_it_says_and_nothing_else(path: Path) -> None:
    config, written = read_config(path), tomllib.loads(path.read_text())
    rest = NAMED[written["model"]["name"]]
    fields = {field.name for field in dataclasses.fields(SCAVConfig)}
    said = {}
    for section, settings in written.items():
        for name, value in settings.items():
            where = "method" if name in fields else section
            assert to_dict(getattr(config, where))[name] == value, f"[{section}] {name}"
            said.setdefault(where, set()).add(name)
    for name in fields - said["method"]:
        assert getattr(config.method, name) == getattr(rest, name), name
    for section, kind in (("data", DataConfig), ("train", TrainConfig)):
        for field in dataclasses.fields(kind):
            if field.name not in said.get(section, ()):
                assert getattr(getattr(config, section), field.name) == field.default, field.name


@pytest.mark.parametrize("path", FIRST_FORMAT, ids=lambda path: path.stem)
def test_the_configurations_that_came_along_are_those_of_today(path: Path) -> None:
    before, today = read_config(path), read_config(CONFIGS[0].parent / path.name)
    if "paper" in path.stem:  # nearer to the letter since
        before = replace(before, data=replace(before.data, level="as-recorded", gain_db=0.0))
        before = replace(before, method=replace(before.method, trainable="full"))
        if path.stem == "paper":
            before = replace(before, method=replace(before.method, similarity="dot"))
    assert before == today


def test_sections_of_both_formats_go_together() -> None:
    values = {"loss": {"blank": 1}, "method": {"blank": 2, "name": "scav-tiny"}, "train": {"seed": 3, "steps_one": 4}}
    kept = {"loss": {"blank": 1}, "method": {"blank": 2, "name": "scav-tiny"}, "train": {"seed": 3, "steps_one": 4}}
    found = upgraded(values)
    assert found == {"method": {"blank": 2, "name": "scav-tiny", "steps_one": 4}, "train": {"seed": 3}}
    assert values == kept  # what was given stays as it was
    assert upgraded(found) == found
