"""`soundwhere train` as a user meets it: what it writes, how it goes on, and what it says when something is wrong."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
import torch

from soundwhere.cli.main import run
from soundwhere.methods.files import read_facts, read_model, read_tensors

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SMALLEST = [
    *("--model", "scav-tiny", "--frame-px", "32", "--dimension", "16", "--decoupler-layers", "1"),
    *("--decoupler-heads", "2", "--stage-two", "distil", "--scenes", "8", "--batch-size", "4", "--device", "cpu"),
    *("--steps-one", "2", "--steps-two", "2", "--log-every", "1", "--checkpoint-every-s", "0"),
]


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Such small tensors are not worth sharing between threads, least of all on a busy machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def train(*arguments: str) -> int:
    """Run the command; usage errors end in `SystemExit`."""
    try:
        return run(["train", *arguments])
    except SystemExit as end:
        return int(str(end.code))


def test_train_resume_and_build_upon(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert train("--out", "first", *SMALLEST) == 0
    said = capsys.readouterr().err
    assert "wrote first/best.safetensors; to try it on a clip, give --model first" in said
    assert read_model(folder / "first" / "best.safetensors").config.dimension == 16
    entries = [json.loads(line) for line in (folder / "first" / "metrics.jsonl").read_text().splitlines()]
    assert [entry["step"] for entry in entries] == [1, 2, 1, 2]

    # once more: refused, and nothing is touched
    before = (folder / "first" / "latest.safetensors").read_bytes()
    assert train("--out", "first", *SMALLEST) == 2
    said = capsys.readouterr().err
    assert "already holds a run" in said
    assert "--resume" in said
    assert (folder / "first" / "latest.safetensors").read_bytes() == before

    # interrupted, it says how to go on
    with monkeypatch.context() as patched:
        patched.setattr("soundwhere.training.run.Run.train", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
        assert train("--out", "first", "--resume", "--steps-two", "3") == 130
        assert "to go on: soundwhere train --out first --resume" in capsys.readouterr().err
        assert train("--out", "early", *SMALLEST) == 130
        assert "the same command begins anew" in capsys.readouterr().err

    # resumed with nothing but its name, it keeps its own settings
    assert train("--out", "first", "--resume", "--steps-two", "3") == 0
    entries = [json.loads(line) for line in (folder / "first" / "metrics.jsonl").read_text().splitlines()]
    assert [entry["step"] for entry in entries] == [1, 2, 1, 2, 3]
    assert train("--out", "first", "--resume", "--batch-size", "2") == 2
    assert "method.batch_size" in capsys.readouterr().err

    # a file brings its own architecture along
    stage_one = str(folder / "first" / "stage-one.safetensors")
    rest = ["--scenes", "8", "--batch-size", "4", "--steps-two", "1", "--device", "cpu"]
    assert train("--out", "second", "--stage", "two", "--from", stage_one, *rest) == 0
    config, _ = read_facts(folder / "second" / "best.safetensors")
    assert (config.dimension, config.decouple) == (16, True)
    mine, theirs = (read_tensors(folder / name / "best.safetensors", "model.audio.") for name in ("first", "second"))
    assert all(torch.equal(mine[name], theirs[name]) for name in mine)


def test_flags_override_the_file(folder: Path) -> None:
    network = 'name = "scav-tiny"\nframe_px = 32\ndimension = 16\ndecoupler_layers = 1\ndecoupler_heads = 2\n'
    schedule = 'stage = "one"\nsteps_one = 5\nbatch_size = 2\n'
    rest = 'device = "cpu"\nlog_every = 1\nseed = 3\n'
    (folder / "new.toml").write_text(f"[method]\n{network}{schedule}[data]\nscenes = 4\n[train]\n{rest}")
    (folder / "old.toml").write_text(f"[model]\n{network}[data]\nscenes = 4\n[train]\n{schedule}{rest}")
    for name in ("new", "old"):
        assert train("--out", name, "--config", f"{name}.toml", "--steps-one", "1", "--seed", "4") == 0
    settings = json.loads((folder / "new" / "config.json").read_text())
    assert settings["method"]["family"] == "scav"
    assert settings["method"]["name"] == "scav-tiny"
    assert settings["method"]["steps_one"] == 1
    assert settings["method"]["batch_size"] == 2
    assert (settings["train"]["seed"], settings["train"]["device"], settings["data"]["scenes"]) == (4, "cpu", 4)
    assert json.loads((folder / "old" / "config.json").read_text()) == settings
    assert len((folder / "new" / "metrics.jsonl").read_text().splitlines()) == 1


def test_another_model_is_trained_as_the_file_says(folder: Path) -> None:
    (folder / "my.toml").write_text('[method]\nname = "scav-mobile"\nstage = "one"\nsteps_one = 1\nbatch_size = 2\n')
    small = ["--frame-px", "32", "--scenes", "4", "--device", "cpu"]
    assert train("--out", "run", "--config", "my.toml", "--model", "scav-tiny", *small) == 0
    settings = json.loads((folder / "run" / "config.json").read_text())["method"]
    assert (settings["name"], settings["visual"], settings["maps"]) == ("scav-tiny", "tiny", "similarity")
    assert (settings["stage"], settings["steps_one"], settings["batch_size"]) == ("one", 1, 2)


@pytest.mark.parametrize(
    ("arguments", "message", "remedy"),
    [
        (["--resume"], "holds no run to resume", "Leave out --resume"),
        (["--stage", "two", "--model", "scav-tiny"], "needs a trained stage one", "--from"),
        (["--model", "scav-huge"], "no model named 'scav-huge'", "scav-tiny"),
        (["--config", "bad.toml"], "bad.toml is not valid TOML", "line"),
        (["--config", "none.toml"], "none.toml does not exist", "TOML file"),
        (["--config", "odd.toml"], "method: unknown setting 'epochs'", "steps_one"),
        (["--config", "older.toml"], "method: unknown setting 'epochs'", "steps_one"),
        (["--model", "scav"], "no model named 'scav'", "scav-tiny"),
        (["--from", "text.safetensors"], "text.safetensors is not a readable safetensors file", "soundwhere train"),
        (["--from", "none.safetensors"], "does not exist", "best.safetensors"),
        (["--from", "scav-huge"], "no model named 'scav-huge'", "scav-mobile"),
        (["--from", "scav-mobile", "--source", "folder"], "needs a folder", "--root"),
        (["--from", "scav-mobile", "--source", "folder", "--root", ".", "--layouts", "grid"], "joins 4", "--silent"),
        (["--from", ".", "--out", "run"], "best.safetensors does not exist", "runs/NAME"),
        (["--model", "scav-tiny", "--source", "folder"], "needs a folder", "--root"),
        (
            ["--model", "scav-tiny", "--source", "real-duet", "--root", "nowhere"],
            "nowhere is not a folder",
            "benchmark build",
        ),
        (["--model", "scav-tiny", "--dimension", "30"], "dimension is 30", "multiple"),
        (["--model", "scav-tiny", "--device", "gpu"], "'gpu'", "auto"),
        (["--model", "scav-tiny", "--batch-size", "many"], "invalid", "batch-size"),
        (["--colour", "red"], "colour", "help"),
    ],
)
def test_mistakes_end_with_2_and_a_next_step(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str, remedy: str
) -> None:
    (folder / "bad.toml").write_text("[method\nname = 3")
    (folder / "odd.toml").write_text("[method]\nepochs = 3\n")
    (folder / "older.toml").write_text("[loss]\nepochs = 3\n")
    (folder / "text.safetensors").write_text("no weights")
    assert train("--out", "run", *arguments) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert message.lower() in said.lower()
    assert remedy in said
    assert "Traceback" not in said
    assert "internal error" not in said
    assert not (folder / "run").exists()


def test_a_training_without_clips_leaves_no_folder(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "empty").mkdir()
    command = ["--source", "folder", "--root", "empty", *SMALLEST, "--keep-every", "1"]
    assert train("--out", "runs/mine", *command) == 2
    assert "empty" in capsys.readouterr().err
    assert [path.name for path in folder.iterdir()] == ["empty"]
    (folder / "runs/mine").mkdir(parents=True)
    (folder / "runs/mine/notes.txt").write_text("mine")
    assert train("--out", "runs/mine", *command) == 2
    assert [path.name for path in (folder / "runs/mine").iterdir()] == ["notes.txt"]


def test_a_place_that_cannot_be_written(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "taken").write_text("a file")
    assert train("--out", "taken", *SMALLEST) == 2
    said = capsys.readouterr().err
    assert "taken cannot be written" in said
    assert "--out" in said
    assert (folder / "taken").read_text() == "a file"


def test_a_traceback_only_when_asked_for(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert train("--out", "run", "--resume", "--debug") == 2
    assert "Traceback" in capsys.readouterr().err
