"""Settings as plain values: what is written comes back, whatever the method."""

from __future__ import annotations

import dataclasses
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from soundwhere.config import (
    Config,
    DataConfig,
    MethodConfig,
    Thresholds,
    TrainConfig,
    changed_settings,
    from_dict,
    to_dict,
)
from soundwhere.errors import ConfigError
from soundwhere.methods.catalogue import config_from
from soundwhere.methods.scav.config import NAMED, SCAVConfig

positive = st.floats(1e-6, 1e3)
configs = st.builds(
    Config,
    st.builds(
        SCAVConfig,
        name=st.text(max_size=5) | st.sampled_from(list(NAMED)),
        visual=st.sampled_from(["resnet18", "mobilenet_v2", "tiny"]),
        freeze_visual=st.booleans(),
        frame_px=st.sampled_from([32, 64, 224]),
        thresholds=st.builds(Thresholds, positive, positive, positive),
        dimension=st.sampled_from([64, 512]),
        stage_two=st.sampled_from(["paper", "distil"]),
        prior_gradient=st.booleans(),
        single_fraction=st.floats(0, 1),
        steps_one=st.integers(1, 10**9),
        learning_rate=positive,
        batch_size_two=st.none() | st.integers(1, 99),
    ),
    st.builds(
        DataConfig,
        root=st.none() | st.sampled_from([Path("videos"), Path("/data/real duet")]),
        layouts=st.lists(st.sampled_from(["side-by-side", "stacked", "grid"]), min_size=1, max_size=3).map(tuple),
        level=st.sampled_from(["equal-rms", "as-recorded"]),
    ),
    st.builds(TrainConfig, seed=st.integers(0, 2**40), checkpoint_every_s=st.floats(0, 1e6)),
)


@given(configs)
def test_round_trip_through_plain_values(config: Config) -> None:
    values = to_dict(config)
    assert from_dict(Config, values, default=Config(method=SCAVConfig())) == config
    assert config_from(values, "here") == config


def test_a_method_keeps_its_class() -> None:
    config = Config(method=SCAVConfig(dimension=64))
    again = from_dict(Config, {"train": {"seed": 3}}, default=config)
    assert again == replace(config, train=TrainConfig(seed=3))
    assert type(again.method) is SCAVConfig
    with pytest.raises(ConfigError, match="method: unknown setting 'dimension'"):
        from_dict(Config, {"method": {"dimension": 3}})  # without one, there is nothing but what all have


@dataclasses.dataclass(frozen=True)
class Another(MethodConfig):
    """Settings of a method of its own."""

    family: str = "another"
    steps: int = 5

    training = frozenset({"steps"})


def test_a_network_is_trained_as_another_of_its_method_says() -> None:
    mine = SCAVConfig(dimension=64, decouple=False, steps_one=5)
    theirs = SCAVConfig(steps_one=7, blank=2, batch_size_two=9, frame_px=64, sounding_threshold=0.7)
    assert mine.trained_like(theirs) == SCAVConfig(dimension=64, steps_one=7, blank=2, batch_size_two=9)
    assert Another(frame_px=64).trained_like(Another(frame_px=32, steps=9)) == Another(frame_px=64, steps=9)
    assert Another(steps=9).trained_like(SCAVConfig()) == Another(steps=9)


def test_what_trains_a_method_is_named_as_it_is() -> None:
    names = {field.name for field in dataclasses.fields(SCAVConfig)}
    assert SCAVConfig.training < names
    assert SCAVConfig.changeable < SCAVConfig.training
    assert not {"family", "name", "frame_px", "dimension", "maps", "decouple"} & SCAVConfig.training


def test_differences_are_named_by_section() -> None:
    one = Config(method=SCAVConfig())
    other = Config(
        SCAVConfig(dimension=64, thresholds=Thresholds(positive=0.7), blank=1), train=replace(one.train, seed=1)
    )
    assert changed_settings(one, one) == []
    assert changed_settings(one, other) == [
        "method.thresholds.positive",
        "method.dimension",
        "method.blank",
        "train.seed",
    ]
    assert changed_settings(one, replace(one, method=Another())) == ["method"]  # whatever else it has


def test_settings_are_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Config().train.seed = 3  # type: ignore[misc]


@pytest.mark.parametrize("number", [float("inf"), float("-inf"), float("nan")])
@pytest.mark.parametrize(
    ("kind", "name"),
    [(DataConfig, "gain_db"), (TrainConfig, "checkpoint_every_s"), (MethodConfig, "sounding_threshold")],
)
def test_numbers_that_no_file_can_hold_are_refused(kind: type, name: str, number: float) -> None:
    with pytest.raises(ConfigError, match=f"{name} is {number}"):
        kind(**{name: number})
