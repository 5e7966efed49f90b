"""Every command of the README is run, here or by .ci/run, in the order in which a reader would.

.ci/run does so twice: in this environment, and in one that has only what the README installs.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image
from tests.shortcuts import draw_few

from soundwhere.cli.main import run
from soundwhere.media.audio import read_audio, write_wav
from soundwhere.media.video import read_frames

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(\w*)\n(.*?)```", README, re.DOTALL)
LINES = [line.split("  ")[0].split("#")[0].strip() for kind, text in BLOCKS if not kind for line in text.splitlines()]
COMMANDS = [line for line in LINES if line]

# Programs of an environment that has only what the README installs; without, commands run in this process
BARE = os.environ.get("SOUNDWHERE_README_BIN")

# What makes a command of the README small enough for a test
QUICK = {
    "train --config": "--scenes 32 --steps-one 2 --steps-two 2 --batch-size 8",
    "evaluate --benchmark synthetic": "--count 4 --no-page --out results-1",
    "evaluate --benchmark real-duet": "--limit 2 --no-page --out results-2",
    "evaluate --benchmark vggsound-duet": "--limit 50 --no-page --out results-3",
}


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory, clip_path: Path) -> Path:
    """A folder with what the README's commands name."""
    folder = tmp_path_factory.mktemp("readme")
    (folder / "clip.mp4").symlink_to(clip_path)
    (folder / "films").mkdir()
    shutil.copy(clip_path, folder / "films")
    (folder / "configs").symlink_to(ROOT / "configs")
    frame = read_frames(clip_path, [0.0])[0]
    Image.fromarray(frame.image).save(folder / "photo.jpg")
    write_wav(folder / "sound.wav", read_audio(clip_path))
    shared = ROOT.parent / "shared" / "data"
    for name in ("real-duet", "annotations"):
        if (shared / name).is_dir():
            (folder / name).symlink_to(shared / name)
    return folder


@pytest.mark.parametrize("command", [command for command in COMMANDS if command.startswith("soundwhere")])
def test_command(command: str, desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for needed in ("real-duet/", "annotations/"):
        if needed in command and not (desk / needed).is_dir():
            pytest.skip(f"needs {needed} beside the repository")
    monkeypatch.chdir(desk)
    monkeypatch.delenv("PYTHONPATH", raising=False)  # what is installed counts
    if command.startswith(("soundwhere serve", "soundwhere live")):
        return check_serving(command)
    extra = next((flags for start, flags in QUICK.items() if f"soundwhere {start}" in command), "")
    if BARE:
        words = shlex.split(f"{command} {extra.replace('--no-page', '')}")
        subprocess.run([f"{BARE}/{words[0]}", *words[1:]], check=True)
    else:
        draw_few(monkeypatch)
        monkeypatch.setattr("soundwhere.evaluation.constant._ENOUGH", 4)
        assert run(shlex.split(f"{command} {extra}")[1:]) == 0
    return None


def check_serving(command: str) -> None:
    """A server begins, says where, and ends when told to."""
    program = [f"{BARE}/python" if BARE else sys.executable, "-m"]
    arguments = [*program, *shlex.split(command), "--no-browser", "--port", "0"]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        assert any("http://127.0.0.1" in line for line in iter(server.stdout.readline, ""))
        server.send_signal(signal.SIGTERM)
        assert server.wait(60) == 0


def test_make_targets_are_run_by_ci() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    targets = [command for command in COMMANDS if command.startswith("make")]
    assert {"make demo", "make test", "make reproduce", "make train-demo"} == set(targets)
    for target in targets:
        assert target in script
    others = [command for command in COMMANDS if not command.startswith(("make", "soundwhere"))]
    assert others == ["pip install -c constraints.txt ."]
    assert "grep '^pip install' README.md" in script


@pytest.mark.skipif(not BARE, reason="needs the environment that .ci/run makes")
def test_nothing_else_is_installed() -> None:
    extras = ("matplotlib", "torchmetrics", "huggingface_hub", "onnx", "tensorboard", "pytest", "httpx")
    script = f"from importlib.util import find_spec; print([name for name in {extras} if find_spec(name)])"
    assert subprocess.check_output([f"{BARE}/python", "-c", script], text=True) == "[]\n"


def test_python_example(desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(desk)
    (example,) = (text for kind, text in BLOCKS if kind == "python")
    if BARE:
        monkeypatch.delenv("PYTHONPATH", raising=False)
        script = f"{example}\nprint(result.heatmap(1.5).shape[1:])"
        assert subprocess.check_output([f"{BARE}/python", "-c", script], text=True) == "(64, 96)\n"
        return
    names: dict[str, object] = {}
    exec(compile(example, "README.md", "exec"), names)
    assert names["result"].heatmap(1.5).shape[1:] == (64, 96)  # type: ignore[attr-defined]


def test_readme_is_short() -> None:
    assert len(README.splitlines()) < 200
