"""Kill -9 at any moment: the resumed run ends with the same files as one that was left in peace."""

from __future__ import annotations

import json
import random
import time
from typing import TYPE_CHECKING, Any

import pytest
import torch

from soundwhere.methods.files import read_facts, read_tensors
from soundwhere.training.checkpoint import read_progress

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

STEPS = 8
SETTINGS = (
    "--model scav-tiny --frame-px 64 --dimension 32 --decoupler-layers 1 --scenes 32 --batch-size 8 --device cpu "
    f"--steps-one {STEPS} --steps-two {STEPS} --checkpoint-every-s 0 --log-every 1 --stage-two distil --trainable full "
    "--single-fraction 0.4 --learning-rate 1e-3 --schedule cosine --warmup-steps 3 --clip-norm 1"
).split()


def lines(folder: Path) -> list[dict[str, Any]]:
    text = (folder / "metrics.jsonl").read_text() if (folder / "metrics.jsonl").exists() else ""
    return [json.loads(line) for line in text.splitlines() if line.endswith("}")]


def kill_within(command: Any, folder: Path, stage: str) -> float:
    """Kill a run at a random moment within the steps of a stage; the seconds waited are returned to be reported."""
    seen: list[float] = []
    while len(seen) < 3:
        assert command.process.is_alive(), command.log.read_text()
        if sum(line["stage"] == stage for line in lines(folder)) > len(seen):
            seen.append(time.monotonic())
        time.sleep(0.002)
    wait = random.uniform(0, seen[2] - seen[0])  # of about two steps
    time.sleep(wait)
    command.kill()
    return wait


@pytest.mark.slow
def test_a_killed_run_ends_like_one_left_in_peace(tmp_path: Path, start_training: Callable[..., Any]) -> None:
    peace, war = tmp_path / "peace", tmp_path / "war"
    quiet = start_training(peace, *SETTINGS)
    waits = [kill_within(start_training(war, *SETTINGS), war, "one")]
    assert read_progress(war / "latest.safetensors")[1].stage == "one"
    waits.append(kill_within(start_training(war, "--resume"), war, "two"))
    assert read_progress(war / "latest.safetensors")[1].stage == "two"
    start_training(war, "--resume").finish()
    quiet.finish()

    for name in ("latest.safetensors", "best.safetensors", "stage-one.safetensors"):
        expected, found = read_tensors(peace / name, ""), read_tensors(war / name, "")
        assert expected.keys() == found.keys()
        different = [key for key in expected if not torch.equal(expected[key], found[key])]
        assert not different, f"{name} after waiting {waits} s"
    (_, expected), (_, found) = read_facts(peace / "latest.safetensors"), read_facts(war / "latest.safetensors")
    assert found["progress"] | {"seconds": 0} == expected["progress"] | {"seconds": 0}
    assert found["config"] == expected["config"]
    told = [[{**line, "samples_per_s": 0} for line in lines(folder)] for folder in (peace, war)]
    assert told[0] == told[1], f"after waiting {waits} s"
    assert [(line["stage"], line["step"]) for line in told[1]] == [
        (stage, step) for stage in ("one", "two") for step in range(1, STEPS + 1)
    ]
    names = [sorted(path.name for path in folder.iterdir()) for folder in (peace, war)]
    assert names[0] == names[1]  # nothing half-written is left
