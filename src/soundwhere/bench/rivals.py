"""How fast a method trains, stage by stage, against a plain loop: decode, encode and loss at every step, no cache."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from soundwhere.bench.clock import Clock
from soundwhere.bench.training import training_steps, write_clips
from soundwhere.data.memory import MEMORY
from soundwhere.data.training_scenes import make_draws
from soundwhere.methods.catalogue import find_method
from soundwhere.methods.files import build
from soundwhere.training.run import check_config

if TYPE_CHECKING:
    from pathlib import Path

    from soundwhere.config import Config
    from soundwhere.data.draws import Draws, Example
    from soundwhere.methods.method import Stage

CAPTION_WIDTH = 32


@dataclass(frozen=True)
class StageSpeed:
    """Steps per second of one stage, and how many steps of it a training has."""

    name: str
    ours: float
    plain: float
    steps: int


@dataclass(frozen=True)
class MethodBench:
    """Speeds within one run, of every stage."""

    stages: tuple[StageSpeed, ...]

    @property
    def ours(self) -> float:
        """Steps per second over the whole training."""
        return self._steps / sum(stage.steps / stage.ours for stage in self.stages)

    @property
    def plain(self) -> float:
        """The same of the plain loop."""
        return self._steps / sum(stage.steps / stage.plain for stage in self.stages)

    @property
    def ratio(self) -> float:
        """How many times as fast ours is."""
        return self.ours / self.plain

    def describe(self) -> str:
        """Steps per second of every stage and of the whole training, as a table, and what that means."""
        rows = [(f"stage {stage.name}", stage.ours, stage.plain) for stage in self.stages]
        lines = [f"  {'':<12}{'this package':>14}{'plain loop':>14}{'ratio':>8}"]
        for name, ours, plain in (*rows, ("all steps", self.ours, self.plain)):
            lines.append(f"  {name:<12}{ours:>14.2f}{plain:>14.2f}{ours / plain:>8.2f}")
        return "\n".join([*lines, f"{self.ratio:.2f} times as fast as decoding and encoding everything at every step"])

    @property
    def _steps(self) -> int:
        return sum(stage.steps for stage in self.stages)


class DecodedAnew:
    """The same scenes as a plain loop draws them: every file is read again, and pictures are given, not features."""

    def __init__(self, draws: Draws) -> None:
        self.native = draws.native
        self._draws = draws

    def __len__(self) -> int:
        return len(self._draws)

    def draw(self, number: int, pictures: bool = True) -> Example:
        """Draw a scene; there is nothing but pictures."""
        assert pictures
        with MEMORY.set_aside():
            return self._draws.draw(number, pictures=True)


def bench_method(config: Config, *, steps: int = 5) -> MethodBench:
    """Train every stage in both ways, a step in turn, so that a busy machine slows both.

    Both run the same code on the same scenes but for where these come from. What happens once per run (computing
    features, reading recordings into memory) is done before the clock starts, as is one step of each. Weights are
    random.

    Args:
        config: What is trained, on clips.
        steps: Steps of each stage that are timed.
    """
    torch.manual_seed(0)
    config = check_config(config)
    network: Any = build(config.method)
    found = []
    for stage in find_method(config.method.family).stages(config.method):
        stage.prepare(network, config, lambda *_: None)
        found.append(_bench_stage(network, stage, config, steps))
    return MethodBench(tuple(found))


def _bench_stage(network: Any, stage: Stage, config: Config, steps: int) -> StageSpeed:
    size = stage.schedule.batch_size
    draws = make_draws(
        config.data,
        stage.phases[-1].needs,
        batch_size=size,
        seed=config.train.seed,
        frame_px=config.method.frame_px,
        eye=network.eye,
    )
    loops = {
        "plain": training_steps(deepcopy(network), stage, DecodedAnew(draws), size),
        "ours": training_steps(network, stage, draws, size),
    }
    for number in range((steps + 1) * size):  # recordings into memory
        draws.draw(number)
    clock = Clock()
    clock.take_turns(loops, steps)
    speeds = clock.speeds()
    return StageSpeed(stage.name, speeds["ours"], speeds["plain"], stage.phases[-1].until)


def made_up(config: Config, folder: Path, clips: int, batch_size: int) -> Config:
    """The configuration on clips of the made-up world, written with classes and (random) captions; random weights.

    Args:
        config: Of a method.
        folder: Where clips and features are written.
        clips: How many.
        batch_size: Scenes per step.
    """
    root = write_clips(folder / "clips", clips)
    rng = np.random.default_rng(0)
    captions = root / "captions.npz"
    np.savez(
        captions,
        names=np.array([path.name for path in root.glob("*.jpg")]),
        foreground=rng.normal(size=(clips, 2, CAPTION_WIDTH)),
        background=rng.normal(size=(clips, CAPTION_WIDTH)),
    )
    data = replace(config.data, source="real-duet", root=root, cache=folder / "features")
    return sized(replace(config, data=data), clips, batch_size, captions=captions)


def on_clips(config: Config, root: Path | None, folder: Path, clips: int, batch_size: int) -> Config:
    """The configuration on the clips of a real-duet set, or on made-up ones, which are written to a folder."""
    if root is None:
        return made_up(config, folder, clips, batch_size)
    return sized(replace(config, data=replace(config.data, root=root)), clips, batch_size)


def sized(config: Config, clips: int, batch_size: int, **changes: Any) -> Config:
    """The configuration with batches and a pool of some size, and changes to what its method knows."""
    wanted = {"batch_size": batch_size, "batch_size_two": batch_size, **changes}
    known = {field.name for field in fields(config.method)} & wanted.keys()
    method = replace(config.method, **{name: wanted[name] for name in known})
    return replace(config, method=method, data=replace(config.data, pool=min(config.data.pool, clips)))
