"""The smallest runs that still do everything, and the command in processes of its own."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch

from soundwhere.cli.main import run
from soundwhere.config import Config, DataConfig, TrainConfig
from soundwhere.methods.catalogue import named_config

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from multiprocessing.context import BaseContext


def smallest() -> Config:
    """Both stages on 8 made-up scenes of 32 x 32 pixels, 2 steps each."""
    return Config(
        method=replace(
            named_config("scav-tiny"), frame_px=32, dimension=16, decoupler_layers=1, decoupler_heads=2,
            stage_two="distil", steps_one=2, steps_two=2, batch_size=4, learning_rate=1e-3,
        ),
        data=DataConfig(scenes=8, silent=1),
        train=TrainConfig(device="cpu", checkpoint_every_s=0, log_every=1),
    )  # fmt: skip


@pytest.fixture
def config() -> Config:
    return smallest()


def _train(arguments: list[str], log: Path) -> None:
    """What a new process does: the command, with what it says in a file."""
    with log.open("a") as file:
        os.dup2(file.fileno(), 2)
    sys.exit(run(["train", *arguments]))


class Command:
    """`soundwhere train` in a process of its own."""

    def __init__(self, warm: BaseContext, folder: Path, *arguments: str) -> None:
        self.log = folder.with_suffix(".log")
        self.process = warm.Process(target=_train, args=(["--out", str(folder), *arguments], self.log))  # type: ignore[attr-defined]
        self.process.start()

    def finish(self, code: int = 0) -> None:
        """Wait for its end, which must be this one."""
        self.process.join(250)
        assert self.process.exitcode == code, self.log.read_text()

    def kill(self) -> None:
        """As a power cut would."""
        self.process.kill()
        self.finish(-9)


@pytest.fixture
def start_training(warm: BaseContext, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Command]:
    """Starts the command: `start_training(folder, "--resume")`."""
    monkeypatch.syspath_prepend(Path(__file__).parents[2])  # where new processes find this file
    return partial(Command, warm)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Such small tensors are not worth sharing between threads, least of all on a busy machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
