from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from soundwhere.cli.main import run
from soundwhere.errors import MediaError
from soundwhere.inference import writers
from soundwhere.media.writer import VideoWriter
from soundwhere.terminal.batch import ClipRunner, Task

if TYPE_CHECKING:
    from collections.abc import Callable

    Give = Callable[[str], Path]
    Capture = pytest.CaptureFixture[str]

pytestmark = pytest.mark.usefixtures("warm_workers")

QUICK = ["--formats", "json", "--fps", "2", "--device", "cpu"]


def everything(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*")}


def test_a_clip(give: Give, folder: Path, model_path: Path, capsys: Capture) -> None:
    give("clip")
    assert run(["clip.mp4", "--model", str(model_path), "--fps", "2"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0] == "clip.mp4  0:02, 96x64, mono 22.05 kHz"
    assert out[1].startswith("  source 1  ■ orange   ")
    assert out[2].startswith("  source 2  ■ blue     ")
    assert out[3] == "  scav-tiny does not count: both of its sources are shown"
    assert out[-1].startswith("wrote clip.soundwhere/overlay.mp4 (with sound), index.html, result.json")
    stored = json.loads((folder / "clip.soundwhere" / "result.json").read_text())
    assert stored["model"]["name"] == "scav-tiny"
    assert stored["settings"]["fps"] == 2


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("missing", "does not exist"),
        ("folder", "holds no video"),
        ("truncated", "cut short or damaged"),
        ("mute", "no sound track"),
        ("sound", "no picture"),
        ("empty", "is empty"),
        ("text", "not a media file"),
    ],
)
def test_bad_input(kind: str, words: str, give: Give, folder: Path, model_path: Path, capsys: Capture) -> None:
    path = give(kind)
    before = everything(folder)
    assert run([str(path), "--model", str(model_path), "--out", "results", *QUICK]) == 2
    captured = capsys.readouterr()
    message, remedy = captured.err.strip().split("\n")
    assert message.startswith(f"soundwhere: {path}")
    assert words in message
    assert len(remedy) > 10
    assert captured.out == ""
    assert everything(folder) == before


@pytest.mark.parametrize(("kind", "early", "begun"), [("missing", True, 0), ("text", True, 1), ("text", False, 0)])
def test_when_a_model_is_loaded(kind: str, early: bool, begun: int, give: Give, folder: Path) -> None:
    loads: list[None] = []
    runner = ClipRunner(lambda: loads.append(None), early=early)  # type: ignore[arg-type, func-returns-value]
    with pytest.raises(MediaError):
        runner.do(Task(give(kind), folder / "out", None, 0.0, None, ("json",), False))
    assert len(loads) == begun


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--model", "scav-giant"], "no model named 'scav-giant'"),
        (["--model", "missing.safetensors"], "does not exist"),
        (["--model", "text.safetensors"], "not a readable safetensors file"),
        (["--model", "truncated.safetensors"], "not a readable safetensors file"),
        (["--model", "other.safetensors"], "not a soundwhere model"),
        (["--formats", "gif"], "no output format 'gif'"),
        (["--fps", "0"], "not a valid number of frames"),
        (["--start", "7"], "clip.mp4 has nothing"),
        (["--device", "abacus"], "abacus"),
        (["--out", "clip.mp4/inside"], "cannot be written"),
        (["--audio", "missing.wav"], "missing.wav does not exist"),
    ],
)
def test_bad_options(
    options: list[str], words: str, give: Give, folder: Path, model_path: Path, capsys: Capture
) -> None:
    import torch
    from safetensors.torch import save_file

    give("clip")
    (folder / "text.safetensors").write_text("no model")
    (folder / "truncated.safetensors").write_bytes(model_path.read_bytes()[:100_000])
    save_file({"a": torch.zeros(2)}, folder / "other.safetensors")
    before = everything(folder)
    assert run(["clip.mp4", *([] if "--model" in options else ["--model", str(model_path)]), *options]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert 2 <= len(error.strip().splitlines()) <= 3
    assert "Traceback" not in error
    assert everything(folder) == before


def test_debug_shows_where(folder: Path, capsys: Capture) -> None:
    assert run(["missing.mp4", "--debug"]) == 2
    assert "Traceback" in capsys.readouterr().err


def test_no_file_at_all(capsys: Capture) -> None:
    assert run(["localise"]) == 2
    assert "No file was given" in capsys.readouterr().err


def test_a_batch_goes_on_past_a_bad_file(give: Give, folder: Path, model_path: Path, capsys: Capture) -> None:
    for kind in ("good", "better", "text", "mute"):
        give(kind)
    command = [str(folder), "--model", str(model_path), "--out", "found", *QUICK]
    assert run(command) == 1
    captured = capsys.readouterr()
    assert "2 localised, 0 skipped, 2 failed" in captured.out
    assert captured.err.count("mute.mp4 has a picture but no sound track") == 2  # when it happens, and at the end
    assert {path.name for path in (folder / "found").iterdir()} == {"good.soundwhere", "better.soundwhere"}
    assert run(command) == 1
    assert "0 localised, 2 skipped, 2 failed" in capsys.readouterr().out
    assert run(["text.mp4", "mute.mp4", "--model", str(model_path)]) == 2


def test_finished_results_are_skipped_unless_told(
    give: Give, folder: Path, model_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    give("clip")
    command = ["*.mp4", "--model", str(model_path), *QUICK]
    assert run(command) == 0
    result = folder / "clip.soundwhere" / "result.json"
    written = result.stat().st_mtime_ns
    capsys.readouterr()
    assert run(command) == 0
    assert "clip.soundwhere is finished (--overwrite does it again)" in capsys.readouterr().out
    assert result.stat().st_mtime_ns == written
    assert run([*command, "--overwrite", "--formats", "csv"]) == 0
    assert everything(folder) == {
        "clip.mp4",
        "clip.soundwhere",
        "clip.soundwhere/result.csv",
        "clip.soundwhere/result.json",
    }


def test_two_clips_of_one_name(give: Give, folder: Path, model_path: Path, capsys: Capture) -> None:
    give("clip").rename(folder / "clip.mov")
    give("clip")
    for _ in range(2):  # the second time one of them is finished
        assert run(["clip.mov", "clip.mp4", "clip.mp4", "--model", str(model_path), *QUICK]) == 1
        assert "clip.mp4 and clip.mov would both be written to clip.soundwhere" in capsys.readouterr().err
    assert run(["clip.mp4", "--model", str(model_path), *QUICK]) == 2
    assert "clip.soundwhere holds the result of clip.mov, not of clip.mp4" in capsys.readouterr().err


def test_what_is_skipped_says_what_it_lacks(give: Give, model_path: Path, capsys: Capture) -> None:
    give("clip")
    assert run(["clip.mp4", "--model", str(model_path), *QUICK]) == 0
    capsys.readouterr()
    assert run(["clip.mp4", "--skip-done", "--formats", "csv,json,coco"]) == 0
    assert "clip.soundwhere is finished without csv,coco (--overwrite" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "words"), [(["--skip-done", "--overwrite"], "contradict"), (["--workers", "0"], "not a valid")]
)
def test_options_that_do_not_go_together(options: list[str], words: str, give: Give, capsys: Capture) -> None:
    give("clip")
    assert run(["clip.mp4", *options]) == 2
    assert words in capsys.readouterr().err


def test_several_clips_at_once(give: Give, folder: Path, model_path: Path, capsys: Capture) -> None:
    for kind in ("good", "better", "best", "mute", "text"):
        give(kind)
    command = [str(folder), "--model", str(model_path), "--out", "found", "--workers", "2", *QUICK]
    assert run(command) == 1
    captured = capsys.readouterr()
    rows = [line.split() for line in captured.out.splitlines()]
    table = {Path(row[0]).stem: Path(row[-1]).name for row in rows if row and row[0].endswith(".mp4")}
    found = {name: f"{name}.soundwhere" for name in ("good", "better", "best")}
    assert table == {**found, "mute": "failed", "text": "failed"}
    assert list(table) == sorted(table)  # as given, not as they came
    assert rows[-1] == ["3", "localised,", "0", "skipped,", "2", "failed"]
    assert captured.err.count("mute.mp4 has a picture but no sound track") == 2
    assert {path.name for path in (folder / "found").iterdir()} == set(found.values())
    alone = json.loads((folder / "found" / "best.soundwhere" / "result.json").read_text())
    assert run(["best.mp4", "--model", str(model_path), *QUICK]) == 0
    assert json.loads((folder / "best.soundwhere" / "result.json").read_text())["times_s"] == alone["times_s"]
    capsys.readouterr()
    assert run(command) == 1
    assert "0 localised, 3 skipped, 2 failed" in capsys.readouterr().out


@pytest.mark.skipif(sys.platform == "win32", reason="such names are not allowed there")
@pytest.mark.parametrize(
    "name", ["Ünï 文字 🎻", "é" * 120, "n" * 251, "two\nlines", "100% [a] *?", ".hidden", "-dash", "a.b.c", "rtsp:x"]
)
def test_every_name(name: str, give: Give, folder: Path, model_path: Path, capsys: Capture) -> None:
    """Also names of the longest length there is, names that look like patterns, options or addresses."""
    give("clip").rename(folder / f"{name}.mp4")
    assert run([f"./{name}.mp4", "--model", str(model_path), "--fps", "1", "--formats", "mp4,html,json,coco"]) == 0
    assert "\ntwo" not in capsys.readouterr().out
    (result,) = folder.glob("*.soundwhere") if name != ".hidden" else folder.glob(".*.soundwhere")
    assert json.loads((result / "result.json").read_text())["file"] == f"{name}.mp4"
    assert {path.name for path in folder.iterdir()} == {f"{name}.mp4", result.name}
    assert run([f"./{name}.mp4"]) == 0  # it is found again
    assert "is finished" in capsys.readouterr().out


def test_patterns_and_folders_give_each_clip_once(give: Give, folder: Path, model_path: Path, capsys: Capture) -> None:
    (folder / "films" / "deep").mkdir(parents=True)
    give("one").rename(folder / "films" / "one.mp4")
    give("two").rename(folder / "films" / "deep" / "two.MP4")
    (folder / "films" / "notes.txt").write_text("no film")
    options = ["--model", str(model_path), *QUICK]
    assert run(["films", "films/*.mp4", "films/**/*.MP4", "films/one.mp4", *options]) == 0
    assert "2 localised, 0 skipped, 0 failed" in capsys.readouterr().out
    assert run(["films", "nothing/*.mp4", *options]) == 1  # its own results are no clips
    captured = capsys.readouterr()
    assert "0 localised, 2 skipped, 1 failed" in captured.out
    assert "nothing/*.mp4 matches no file" in captured.err


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_model_that_cannot_be_loaded_is_reported_once(workers: str, give: Give, capsys: Capture) -> None:
    give("good")
    give("better")
    assert run(["*.mp4", "--model", "missing.safetensors", "--workers", workers, *QUICK]) == 2
    error = capsys.readouterr().err
    assert error.count("missing.safetensors does not exist") == 1
    assert "Traceback" not in error


def test_a_defect_costs_one_clip(
    give: Give, model_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    from soundwhere.inference.footage import Footage

    opened = Footage.open

    def broken(path: Path, *rest: object) -> Footage:
        if path.stem == "good":
            raise ZeroDivisionError("division by zero")
        return opened(path, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(Footage, "open", broken)
    give("good")
    give("better")
    assert run(["*.mp4", "--model", str(model_path), *QUICK]) == 1
    captured = capsys.readouterr()
    assert "1 localised, 0 skipped, 1 failed" in captured.out
    assert "good.mp4: internal error: ZeroDivisionError" in captured.err


def test_a_recording_goes_with_one_clip(give: Give, model_path: Path, capsys: Capture) -> None:
    give("mute")
    give("clip")
    give("sound")
    assert run(["mute.mp4", "--audio", "sound.wav", "--model", str(model_path), *QUICK]) == 0
    assert run(["mute.mp4", "clip.mp4", "--audio", "sound.wav", "--model", str(model_path), *QUICK]) == 2
    assert "One recording" in capsys.readouterr().err


def test_a_full_disk(
    give: Give, folder: Path, model_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    give("clip")
    monkeypatch.setitem(writers.WRITERS, "html", full)
    assert run(["clip.mp4", "--model", str(model_path), "--fps", "2"]) == 2
    error = capsys.readouterr().err
    assert "No space left on device" in error
    assert "Free some space" in error
    assert everything(folder) == {"clip.mp4"}


@pytest.mark.skipif(sys.platform == "win32", reason="needs limits on file sizes")
def test_a_video_that_does_not_fit(give: Give, folder: Path, model_path: Path) -> None:
    """The operating system itself refuses to write more than 4 kB to a file."""
    give("clip")
    script = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096));"
        "from soundwhere.cli.main import main; main()"
    )
    command = [sys.executable, "-c", script, "clip.mp4", "--model", str(model_path), "--fps", "2"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    assert "cannot be written" in done.stderr
    assert "Traceback" not in done.stderr
    assert everything(folder) == {"clip.mp4"}


@pytest.fixture
def interrupt(start_program: Callable[..., Any], folder: Path) -> Callable[..., str]:
    """Starts a command, sends it a signal when it is ready, and returns what it says; it must leave nothing behind."""

    def interrupted(command: list[str], ready: Callable[[Any], bool], number: int) -> str:
        before = everything(folder)
        process = start_program(*command)
        assert ready(process)
        process.send_signal(number)
        _, error = process.communicate(timeout=60)
        assert process.returncode == 130, error
        assert "interrupted" in error
        assert "Traceback" not in error
        assert everything(folder) == before
        return str(error)

    return interrupted


@pytest.fixture(scope="module")
def long_clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """40 s of bars that move, long enough to be interrupted however busy the machine is."""
    path = tmp_path_factory.mktemp("long") / "clip.mp4"
    bars = np.repeat(np.arange(64, dtype=np.uint8) * 4, 48 * 3).reshape(64, 48, 3).swapaxes(0, 1)
    with VideoWriter(path, 64, 48, 25, waveform=np.full(40 * 22_050, 0.1, np.float32)) as writer:
        for shift in range(1000):
            writer.write(np.roll(bars, shift, axis=1))
    return path


@pytest.mark.skipif(sys.platform == "win32", reason="needs signals")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_leaves_nothing(
    interrupt: Callable[..., str], folder: Path, long_clip: Path, model_path: Path, number: int
) -> None:
    def ready(process: Any) -> bool:
        return process.stdout.readline().startswith("clip.mp4")

    shutil.copy(long_clip, folder / "clip.mp4")
    interrupt(["clip.mp4", "--model", str(model_path), "--fps", "25"], ready, number)


@pytest.mark.skipif(sys.platform == "win32", reason="needs signals")
def test_an_interruption_while_writing_removes_what_was_written(
    interrupt: Callable[..., str], folder: Path, long_clip: Path, model_path: Path
) -> None:
    def ready(process: Any) -> bool:
        return wait_until(lambda: bool(list(folder.rglob("*.partial.mp4"))), process)

    shutil.copy(long_clip, folder / "clip.mp4")
    interrupt(["clip.mp4", "--model", str(model_path), "--fps", "0.1"], ready, signal.SIGINT)


@pytest.mark.skipif(sys.platform == "win32", reason="needs signals")
def test_an_interruption_ends_every_worker(
    interrupt: Callable[..., str], folder: Path, long_clip: Path, model_path: Path
) -> None:
    def ready(process: Any) -> bool:
        return wait_until(lambda: bool(list(folder.rglob("*.partial.mp4"))), process)  # the other is about to

    for name in ("clip.mp4", "other.mp4"):
        shutil.copy(long_clip, folder / name)
    options = ["--model", str(model_path), "--fps", "0.1", "--workers", "2"]
    interrupt(["clip.mp4", "other.mp4", *options], ready, signal.SIGTERM)


def wait_until(condition: Callable[[], bool], process: Any) -> bool:
    for _ in range(8000):  # some minutes, for a busy machine
        if condition():
            return True
        if process.poll() is not None:
            return False
        time.sleep(0.025)
    return False


def test_real_clips(shared: Path, model_path: Path, tmp_path: Path, capsys: Capture) -> None:
    clips = shared / "data" / "clips"
    options = ["--model", str(model_path), "--out", str(tmp_path), "--end", "1", *QUICK]
    assert run([str(clips), *options]) == 1
    captured = capsys.readouterr()
    assert "4 localised, 0 skipped, 1 failed" in captured.out
    assert "no-sound-track.mp4 has a picture but no sound track" in captured.err
