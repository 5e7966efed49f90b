"""SIGTERM saves before it ends, and the same command goes on: the weights are those of a run left in peace."""

from __future__ import annotations

import json
import os
import shlex
import signal
import time
from typing import TYPE_CHECKING, Any

import pytest
import torch

from soundwhere.errors import ConfigError
from soundwhere.methods.files import read_tensors
from soundwhere.training.checkpoint import read_progress
from soundwhere.training.stopping import StopRequest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SETTINGS = shlex.split(
    "--model scav-tiny --frame-px 64 --dimension 32 --decoupler-layers 1 --scenes 32 --batch-size 8 --device cpu "
    "--steps-one 12 --steps-two 3 --checkpoint-every-s 100000 --log-every 1 --learning-rate 1e-3 --auto-resume"
)


def steps(folder: Path) -> list[int]:
    path = folder / "metrics.jsonl"
    text = path.read_text() if path.exists() else ""
    return [json.loads(line)["step"] for line in text.splitlines() if line.endswith("}")]


@pytest.mark.slow
def test_sigterm_saves_and_the_same_command_goes_on(tmp_path: Path, start_training: Callable[..., Any]) -> None:
    peace, stopped = tmp_path / "peace", tmp_path / "stopped"
    quiet, run = (start_training(folder, *SETTINGS) for folder in (peace, stopped))
    deadline = time.monotonic() + 200
    while len(steps(stopped)) < 3:
        assert run.process.is_alive(), run.log.read_text()
        assert time.monotonic() < deadline
        time.sleep(0.002)
    for _ in range(3):
        run.process.terminate()
        time.sleep(0.01)
    run.finish(130)
    assert "Traceback" not in run.log.read_text()
    place = read_progress(stopped / "latest.safetensors")[1]
    assert (place.stage, place.step) == ("one", steps(stopped)[-1])  # nothing that was done is lost
    assert place.step < 12
    start_training(stopped, *SETTINGS).finish()
    quiet.finish()
    for name in ("latest.safetensors", "best.safetensors"):
        expected, found = read_tensors(peace / name, ""), read_tensors(stopped / name, "")
        assert expected.keys() == found.keys()
        assert all(torch.equal(expected[key], found[key]) for key in expected)
    start_training(stopped, *SETTINGS).finish()  # a finished run ends at once


def test_requests_are_noted_until_the_end_and_ctrl_c_ends_at_once() -> None:
    def asked(*numbers: int) -> None:
        with StopRequest() as stop:
            assert not stop.came()
            for number in numbers:
                os.kill(os.getpid(), number)
                assert stop.came()

    before = signal.signal(signal.SIGTERM, lambda *_: (_ for _ in ()).throw(RuntimeError("as before")))
    heard = signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell may have us ignore
    try:
        with pytest.raises(KeyboardInterrupt) as caught:
            asked(signal.SIGTERM, signal.SIGTERM, signal.SIGTERM)  # as Slurm, srun and torchrun do
        assert caught.traceback[-1].name == "__exit__"  # not before
        with pytest.raises(KeyboardInterrupt) as caught:
            asked(signal.SIGTERM, signal.SIGINT)
        assert caught.traceback[-1].name != "__exit__"
        with pytest.raises(RuntimeError, match="as before"):
            os.kill(os.getpid(), signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)
        signal.signal(signal.SIGINT, heard)


def test_a_checkpoint_that_only_one_machine_sees_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dataclasses import replace

    from soundwhere import distributed
    from soundwhere.config import Config, DataConfig, TrainConfig
    from soundwhere.methods.catalogue import named_config
    from soundwhere.training.run import train

    method = replace(named_config("scav-tiny"), frame_px=32)
    config = Config(method, DataConfig(scenes=8), TrainConfig(device="cpu"))
    monkeypatch.setattr(distributed, "from_main", lambda _: True)
    monkeypatch.setattr(distributed, "is_main", lambda: False)
    with pytest.raises(ConfigError, match="is not there for process") as caught:
        train(config, tmp_path, resume="auto")
    assert "share" in caught.value.remedy
