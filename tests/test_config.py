"""Settings from TOML: what is written comes back, and what makes no sense is named with its file and key."""

from __future__ import annotations

import dataclasses
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from soundwhere.config import (
    NAMED,
    Config,
    DataConfig,
    LossConfig,
    SCAVConfig,
    Thresholds,
    TrainConfig,
    changed_settings,
    from_dict,
    read_config,
    to_dict,
)
from soundwhere.errors import ConfigError

positive = st.floats(1e-6, 1e3)
configs = st.builds(
    Config,
    st.builds(
        SCAVConfig,
        name=st.text(max_size=5),
        visual=st.sampled_from(["resnet18", "mobilenet_v2", "tiny"]),
        freeze_visual=st.booleans(),
        frame_px=st.sampled_from([32, 64, 224]),
        thresholds=st.builds(Thresholds, positive, positive, positive),
        dimension=st.sampled_from([64, 512]),
    ),
    st.builds(LossConfig, stage_two=st.sampled_from(["paper", "distil"]), prior_gradient=st.booleans()),
    st.builds(
        DataConfig,
        root=st.none() | st.sampled_from([Path("videos"), Path("/data/real duet")]),
        layouts=st.lists(st.sampled_from(["side-by-side", "stacked", "grid"]), min_size=1, max_size=3).map(tuple),
        single_fraction=st.floats(0, 1),
    ),
    st.builds(TrainConfig, steps_one=st.integers(1, 10**9), learning_rate=positive, seed=st.integers(0, 2**40)),
)


@given(configs)
def test_round_trip_through_plain_values(config: Config) -> None:
    assert from_dict(Config, to_dict(config)) == config


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
    config = Config(
        replace(NAMED[name], pooling="max", thresholds=Thresholds(positive=0.7)),
        LossConfig(stage_two="distil"),
        DataConfig(source="folder", root=Path("a folder"), layouts=("stacked", "grid"), silent=2),
        TrainConfig(stage="joint", learning_rate=3e-4),
    )
    (tmp_path / "all.toml").write_text(toml(to_dict(config)))
    assert read_config(tmp_path / "all.toml") == config


def test_a_name_brings_the_rest_of_its_model(tmp_path: Path) -> None:
    path = tmp_path / "some.toml"
    path.write_text('[model]\nname = "scav-mobile"\ndimension = 128\n[train]\nlearning_rate = 1\n')
    config = read_config(path)
    assert config.model == replace(NAMED["scav-mobile"], dimension=128)
    assert config.train == TrainConfig(learning_rate=1.0)
    path.write_text("")
    assert read_config(path) == Config()


@pytest.mark.parametrize("path", sorted((Path(__file__).parents[1] / "configs").glob("*.toml")), ids=lambda p: p.name)
def test_the_configurations_that_come_along_are_read(path: Path) -> None:
    assert read_config(path).model.name in NAMED


def test_defaults_are_the_papers() -> None:
    config = Config()
    assert (config.model.visual, config.model.audio, config.model.dimension) == ("resnet18", "resnet18", 512)
    assert (config.model.decoupler_layers, config.model.decoupler_heads) == (4, 8)
    assert config.model.thresholds == Thresholds(0.65, 0.4, 0.03)
    assert (config.train.learning_rate, config.train.batch_size) == (1e-4, 256)
    assert config.model == NAMED["scav-r18"]
    assert all(name == config.name for name, config in NAMED.items())


@pytest.mark.parametrize(
    ("text", "message", "remedy"),
    [
        ("[model\n", "is not valid TOML.*line 1", "Correct"),
        ("[train]\nseed = 1\nseed = 2\n", "is not valid TOML", "Correct"),
        ("[mdel]\n", "unknown setting 'mdel'", "model, loss, data, train"),
        ("[train]\nepochs = 3\n", "train: unknown setting 'epochs'", "steps_one"),
        ("[model.thresholds]\nlow = 3\n", "model: thresholds: unknown setting 'low'", "positive"),
        ("[train]\nbatch_size = 2.5\n", r"train: batch_size is 2\.5, which is not of type int", "Correct"),
        ("[train]\nbatch_size = true\n", "train: batch_size is True, which is not of type int", "Correct"),
        ("[train]\nlearning_rate = '1e-3'\n", "train: learning_rate is '1e-3', which is not of type float", "Correct"),
        ("[model]\nfreeze_visual = 1\n", "model: freeze_visual is 1, which is not of type bool", "Correct"),
        ("[data]\nroot = 3\n", "data: root is 3, which is not of type Path", "Correct"),
        ("[data]\nlayouts = 'grid'\n", "data: layouts is 'grid', which is not of type tuple", "Correct"),
        ("[data]\nlayouts = ['ring']\n", "data: layouts is 'ring'", "side-by-side, stacked, grid"),
        ("[train]\nstage = 'three'\n", "train: stage is 'three'", "one, two, both, joint"),
        ("[train]\nstage = ['one']\n", "train: stage is ", "one, two, both, joint"),
        ("model = 3\n", "model is 3, which is no SCAVConfig", "Correct"),
        ("[model]\nname = 'scav-huge'\n", "no model named 'scav-huge'", "scav-r18, scav-mobile, scav-tiny"),
        ("[model]\nname = ['scav-r18']\n", "model: name is", "Correct"),
        ("[model]\nframe_px = 100\n", "model: frame_px is 100", "multiple of 32"),
        ("[model]\ndimension = 100\n", "model: dimension is 100", "multiple of 4 and of the 8"),
        ("[model]\ndecoupler_heads = 0\n", "model: decoupler_heads is 0", "1 or more"),
        ("[model.thresholds]\ntemperature = 0\n", r"thresholds: temperature is 0\.0", "greater than 0"),
        ("[data]\nsingle_fraction = 1.5\n", r"data: single_fraction is 1\.5", "between 0 and 1"),
        ("[data]\nlayouts = []\n", "data: layouts is", "at least one"),
        ("[train]\nlog_every = 0\n", "train: log_every is 0", "1 or more"),
        ("[train]\nlearning_rate = nan\n", "train: learning_rate is nan", "greater than 0"),
        ("[train]\nseed = -1\n", "train: seed is -1", "0 or more"),
        ("[train]\nlearning_rate = inf\n", "train: learning_rate is inf, which is too large", "Correct"),
        (f"[train]\nlearning_rate = {'9' * 400}\n", "train: learning_rate is 9+.*too large", "Correct"),
        (f"[train]\nbatch_size = {'9' * 400}\n", "train: batch_size is 9+.*too large", "Correct"),
        (f"[train]\nseed = {'9' * 5000}\n", "is not valid TOML", "Correct"),
        (f"a = {'[' * 5000}", "is not valid TOML", "Correct"),
    ],
)
def test_mistakes_are_named_with_file_and_key(tmp_path: Path, text: str, message: str, remedy: str) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=rf"bad\.toml.*{message}") as caught:
        read_config(path)
    assert remedy in caught.value.remedy
    assert "\n" not in caught.value.message


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    for path, message in (
        (tmp_path / "none.toml", "does not exist"),
        (tmp_path, "cannot be read"),
        (tmp_path / "binary.toml", "cannot be read"),
    ):
        with pytest.raises(ConfigError, match=message) as caught:
            read_config(path)
        assert "TOML file" in caught.value.remedy


def test_an_unknown_model_lists_those_there_are() -> None:
    with pytest.raises(ConfigError, match="There is no model named 'scav'") as caught:
        named_config("scav")
    assert "scav-tiny" in caught.value.remedy


def test_differences_are_named_by_section() -> None:
    one = Config()
    other = Config(
        replace(one.model, dimension=64, thresholds=Thresholds(positive=0.7)), train=replace(one.train, seed=1)
    )
    assert changed_settings(one, one) == []
    assert changed_settings(one, other) == ["model.thresholds.positive", "model.dimension", "train.seed"]


def test_settings_are_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Config().train.seed = 3  # type: ignore[misc]
