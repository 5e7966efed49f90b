"""Every command and every block of code in the pages is run, made small by what `HOW` says; what is not says why.

README.md has tests of its own (test_readme.py), which also run where only the package is installed.
"""

from __future__ import annotations

import csv
import json
import re
import shlex
import shutil
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import tyro
from PIL import Image
from tests.shortcuts import draw_few

import soundwhere
from soundwhere.cli.main import run
from soundwhere.data.synthetic import movie as movies
from soundwhere.media.audio import write_wav
from soundwhere.methods import catalogue
from soundwhere.methods.files import write_model
from soundwhere.methods.scav.config import NAMED
from soundwhere.methods.scav.model import SCAV

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "CONTRIBUTING.md", ROOT / "MODEL_CARD.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(\w*)([^\n]*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
COMMANDS = ("", "sh")  # languages of blocks that hold commands
DATA = ("text", "csv")  # ... that hold neither commands nor code
INLINE = re.compile(r"`(soundwhere [^`]+)`")
STANDS_FOR = re.compile(r"\.\.\.|\||\b[A-Z]{3,}\b|\bSET\b| K\b|\n")  # what a reader has to put something in for


@dataclass(frozen=True)
class Run:
    """Run it, with words exchanged and words added."""

    added: str = ""
    exchanged: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Elsewhere:
    """Another test runs it, or more than it; here its options are read, as the command would."""

    test: str


@dataclass(frozen=True)
class Not:
    """It is not run, for a reason."""

    reason: str


STEPS = "--steps-one 1 --steps-two 1 --batch-size 4"
SCORED = "--no-page --limit 2"
ENGINE = Not(
    "needs a container engine: the workflow builds the image and runs it; tests/test_container.py has its walls"
)

# The first beginning that fits says how a command is run.
HOW: dict[str, Run | Elsewhere | Not] = {
    "make": Elsewhere(".ci/run"),
    "git clone": Not("its address is the reader's"),
    "pip install": Elsewhere("tests/test_readme.py"),
    "docker": ENGINE,
    "CLIPS_NAME=": ENGINE,
    "npm pack": Not(
        "downloads 184 MB; tests/annotate/test_segmenters.py uses the files where SOUNDWHERE_SAM2_ONNX names them"
    ),
    "tar xzf annotorious": Not("unpacks what was not downloaded"),
    "mkdir sam2-tiny": Not("moves what was not downloaded"),
    "SOUNDWHERE_SAM2_ONNX": Not("needs what was not downloaded"),
    "ssh": Not("needs another machine"),
    "sbatch": Elsewhere("tests/test_cluster_examples.py"),
    "GPUS=8 sbatch": Elsewhere("tests/test_cluster_examples.py"),
    "examples/cluster/prepare_on_ray.sh": Elsewhere("tests/test_cluster_examples.py"),
    "torchrun --nproc-per-node 4 -m soundwhere train": Elsewhere("tests/training/test_two_processes.py"),
    "torchrun --nproc-per-node 8 -m soundwhere evaluate": Elsewhere("tests/evaluation/test_two_processes.py"),
    "python scripts/ship_weights.py": Not("replaces the weights of the package"),
    "SOUNDWHERE_WEIGHTS=weights/ soundwhere train": Elsewhere("tests/methods/wide"),
    "python nearest.py train": Run(
        "--scenes 8 --device cpu", (("--steps 500", "--steps 1"), ("--batch-size 64", "--batch-size 4"))
    ),
    "python nearest.py evaluate": Run("--count 2 --no-page --out nearest-scores"),
    "python nearest.py clip.mp4": Run("--formats json"),
    "soundwhere serve": Elsewhere("tests/test_readme.py"),
    "soundwhere live": Elsewhere("tests/test_readme.py"),
    "soundwhere annotate masks/ --invite": Run(),
    "soundwhere annotate masks/ --segmenter": Elsewhere("tests/annotate/test_segmenters.py"),
    "soundwhere annotate": Elsewhere("tests/annotate/test_browser.py"),
    "soundwhere benchmark build": Elsewhere("tests/data/rebuilding/test_build.py"),
    "soundwhere benchmark revoice": Elsewhere("tests/data/rebuilding/test_revoicing.py"),
    "soundwhere benchmark init masks/": Run("", (("--licence LICENCE.txt", ""),)),
    "soundwhere benchmark propose-score": Elsewhere("tests/annotate/test_proposals.py"),
    "soundwhere benchmark": Run(),
    "soundwhere prepare": Run(),
    "soundwhere world": Run(),
    "soundwhere export": Run(),
    "soundwhere train --out": Run(),  # goes on
    "soundwhere train --config configs/made-up-world.toml": Run(
        f"--scenes 8 {STEPS} --device cpu", (("--report", ""),)
    ),
    "soundwhere train --config configs/own-videos.toml": Run(
        f"{STEPS} --batch-size-two 2 --pool 0 --device cpu",
        (("--from scav-mobile", "--from scav-tiny --model scav-tiny --teacher grow"),),
    ),
    "soundwhere train --config configs/real-duet.toml": Run(
        f"--model scav-tiny {STEPS} --batch-size-two 2 --pool 0 --teacher grow --device cpu"
    ),
    "soundwhere train --source shards": Run(f"--model scav-tiny {STEPS} --frame-px 64 --device cpu"),
    "soundwhere train --model scav-mobile": Run(
        "--device cpu",
        (
            ("--model scav-mobile", "--model scav-tiny"),
            ("--visual-weights mobilenet_v2-b0353104.pth", ""),
            ("--steps-one 300", "--steps-one 1"),
            ("--batch-size 32", "--batch-size 4"),
            ("--keep-every 30", "--keep-every 1"),
        ),
    ),
    "soundwhere train --config configs/rivals": Elsewhere("tests/methods/test_rivals.py"),
    "soundwhere train --from ezvsl.pth": Elsewhere("tests/cli/test_train_rivals.py"),
    "soundwhere evaluate --benchmark real-trio --data real-duet/ --model scav-mobile ezvsl.pth": Elsewhere(
        "tests/cli/test_train_rivals.py"
    ),
    "soundwhere evaluate --benchmark real-trio --data real-duet/ --model runs/first runs/second": Run(
        f"{SCORED} --out figured", (("test-trio-0003", "t0"),)
    ),
    "soundwhere evaluate --benchmark vggsound-duet --data": Run(f"{SCORED} --out pairs"),
    "soundwhere evaluate --benchmark vggsound-duet-mask": Run(f"{SCORED} --out masked"),
    "soundwhere evaluate --benchmark vggsound-duet --annotations": Run(f"{SCORED} --out free"),
    "soundwhere evaluate --benchmark folder --data mine/ --predictions": Run(f"{SCORED} --out theirs"),
    "soundwhere evaluate --benchmark folder --data mine/": Run(f"{SCORED} --out ours", (("scav-mobile", "scav-tiny"),)),
    "soundwhere evaluate --benchmark folder": Run(SCORED, (("scav-wide scav-mobile", "scav-tiny"),)),
    "soundwhere evaluate": Run(SCORED),
    "soundwhere analyse theory": Elsewhere("tests/cli/analyse/test_analyse.py"),
    "soundwhere analyse compare": Elsewhere("tests/cli/analyse/test_compare.py"),
    "soundwhere analyse": Elsewhere("tests/cli/analyse/test_analyse.py"),
    "soundwhere reproduce": Elsewhere("tests/cli/test_reproduce.py"),
    "soundwhere films/ --on ray": Elsewhere("tests/preparation/test_ray.py"),
    "soundwhere films/": Run("--model scav-tiny --formats json", (("--workers 4", "--workers 1"),)),
    "soundwhere made-up/movies": Run("--formats json --fps 1"),
    "soundwhere clip.mp4 --model": Run("--formats json --overwrite"),
    "soundwhere clip.mp4": Run("--model scav-tiny --overwrite"),
}

# Code that is not run as it stands, by page and a word of it
CODE: dict[tuple[str, str], Elsewhere | Not] = {
    ("rivals-several.md", "your text encoder"): Not("the reader's own models go there"),
    ("benchmarks.md", "survey("): Elsewhere("tests/data/benchmarks/test_upstream.py"),
    ("extending.md", '"""A second method'): Elsewhere("tests/methods/test_toy_method.py"),
    ("extending.md", '"""A small Vision Transformer'): Elsewhere("tests/models/encoders/test_vit.py"),
    ("extending.md", '"""Two squares on grey'): Elsewhere("tests/test_extending.py"),
    ("extending.md", '"""Who sounds when, as subtitles'): Elsewhere("tests/test_extending.py"),
    ("live.md", "soundwhere.Live"): Elsewhere("tests/inference/test_live.py"),
}


# A second scene of the miniature real-duet: another scene's sound is needed for every row that must not hear its own
SECOND = {
    "duets": "d1,images/5.png|images/8.png,drum|horn,audio/5.wav|audio/8.wav\n",
    "trios": "t1,images/8.png|images/5.png|images/2.png,horn|drum|bell,audio/8.wav|audio/5.wav|\n",
}


class ParsedError(BaseException):
    """The options of a command are valid."""


def commands(text: str) -> Iterator[str]:
    """The commands of a block, with lines joined and without comments."""
    for line in text.replace("\\\n", " ").splitlines():
        if words := shlex.split(line, comments=True):
            yield shlex.join(words) if "=" not in words[0] and "&&" not in words else line.split("  #")[0].strip()


def blocks(page: Path) -> list[tuple[str, str]]:
    return [(language, text) for language, _, text in BLOCK.findall(page.read_text(encoding="utf-8"))]


def how(command: str) -> Run | Elsewhere | Not:
    return next((what for beginning, what in HOW.items() if command.startswith(beginning)), Run())


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory, clip_path: Path, mini_root: Path) -> Path:
    """A folder with what the pages name; no command may count on another page's."""
    folder = tmp_path_factory.mktemp("docs")
    for name in ("clip.mp4", "long.mkv", "films/clip.mp4", "more/other.mov"):
        (folder / name).parent.mkdir(exist_ok=True)
        shutil.copy(clip_path, folder / name)
    for name in ("configs", "examples"):
        (folder / name).symlink_to(ROOT / name)
    shutil.copytree(mini_root, folder / "real-duet")
    for kind in ("duets", "trios"):
        listed = (folder / "real-duet" / f"{kind}_val.csv").read_text()
        (folder / "real-duet" / f"{kind}_test.csv").write_text(listed + SECOND[kind])
    pictures(folder)
    for name in ("first", "second", "paper", "mine", "real-duet", "noprior", "a", "b"):
        (folder / "runs" / name).mkdir(parents=True)
        write_model(folder / "runs" / name / "best.safetensors", SCAV(NAMED["scav-tiny"]))
    assert run([str(folder / "clip.mp4"), "--model", "scav-tiny", "--formats", "json"]) == 0
    return folder


def pictures(folder: Path) -> None:
    """Four pictures with a sound each: as videos, as clips of VGGSound with boxes, as photos for masks, as scenes."""
    names = [f"clip_00000{number}" for number in range(4)]
    sides = (
        "videos",
        "clips/frames",
        "clips/audio",
        "media/frames",
        "media/audio",
        "annotations/lvs",
        "annotations/avgn",
        "mine",
        "heatmaps",
    )
    for side in sides:
        (folder / side).mkdir(parents=True)
    for number, name in enumerate(names):
        picture = np.full((64, 64, 3), (70, 110, 160), np.uint8)
        picture[16:48, 20:44] = (220, 30 * number, 40)
        sound = (0.2 * np.sin(2 * np.pi * (300 + 100 * number) * np.arange(4 * 22_050) / 22_050)).astype(np.float32)
        for place in (f"videos/{name}.png", f"clips/frames/{name}.jpg", f"mine/{name}.png"):
            Image.fromarray(picture).save(folder / place)
        for place in (f"videos/{name}.wav", f"clips/audio/{name}.wav", f"mine/{name}.wav"):
            write_wav(folder / place, sound)
        np.savez(folder / "heatmaps" / f"{name}.npz", maps=np.eye(64, dtype=np.float32)[None])
    for number, name in enumerate(("kettle-1", "radio-1")):
        shutil.copy(folder / f"clips/frames/clip_00000{number}.jpg", folder / f"media/frames/{name}.jpg")
        shutil.copy(folder / f"clips/audio/clip_00000{number}.wav", folder / f"media/audio/{name}.wav")
    box = [20 / 64, 16 / 64, 44 / 64, 48 / 64]
    truth = [{"file": name, "class": f"kind {number}", "bbox": [box]} for number, name in enumerate(names)]
    for place in ("vggss.json", "annotations/lvs/vggss.json"):
        (folder / place).write_text(json.dumps(truth))
    pairs = "".join(f"{names[a]},kind {a},{names[b]},kind {b}\n" for a, b in ((0, 1), (2, 3)))
    for place in ("vggsound_duet_test.csv", "annotations/avgn/vggsound_duet_test.csv"):
        (folder / place).write_text(pairs)
    with (folder / "mine" / "scenes.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["id", "image", "audio", "boxes"])
        rows.writerows([name, f"{name}.png", f"{name}.wav", "[[20, 16, 44, 48]]"] for name in names)


def annotate(project: Path) -> None:
    """What people do on the page: the first candidate of every frame."""
    from soundwhere.annotate.masking import Masker
    from soundwhere.annotate.project import Project
    from soundwhere.annotate.segmenter.simple import SimpleSegmenter
    from soundwhere.data.annotation.rle import encode_rle

    opened = Project(project)
    store, masker = opened.store, Masker(opened, SimpleSegmenter())
    for task in store.tasks():
        prompts = {"box": 0, "candidate": 1, "points": [], "strokes": []}
        mask = encode_rle(masker.mask(store.frame(task.frame), prompts))
        revision = task.revision
        for kind, body in (
            ("prompt", {"prompts": prompts}),
            ("object", {"prompts": prompts, "mask": mask}),
            ("done", {}),
        ):
            who = "bob" if task.second else "ann"
            revision = store.append(task.id, who, kind, body, base=revision, segmenter="simple-1").number


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> Callable[[list[str]], None]:
    """Reads the options of a command and goes no further."""

    def read(words: list[str]) -> None:
        cli = tyro.cli

        def stop(*arguments: Any, **keywords: Any) -> None:
            cli(*arguments, **keywords)
            raise ParsedError

        with monkeypatch.context() as patch:
            patch.setattr(tyro, "cli", stop)
            with pytest.raises(ParsedError):
                raise SystemExit(run(words))

    return read


def call(command: str, what: Run) -> None:
    for before, after in what.exchanged:
        command = command.replace(before, after)
    words = shlex.split(f"{command} {what.added}")
    if "train" in words and "--resume" not in words:  # what the desk had in its place
        shutil.rmtree(words[words.index("--out") + 1], ignore_errors=True)
    if words[0] == "python":
        words = words[1:]
    assert run(words[1:]) == 0, command


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands(
    page: Path,
    desk: Path,
    monkeypatch: pytest.MonkeyPatch,
    parsed: Callable[[list[str]], None],
    documented: Callable[[str], ModuleType],
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(desk)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    draw_few(monkeypatch)
    monkeypatch.setattr(movies, "write_movie", partial(movies.write_movie, seconds=2.0, fps=5))
    monkeypatch.setattr(catalogue, "METHODS", dict(catalogue.METHODS))  # code of a page may add to it
    for language, text in blocks(page):
        if language == "csv" and page.name == "tutorial-benchmark.md":
            Path("boxes.csv").write_text(text)
        if language == "python":
            # what stands between the complete examples of that page is about the first
            execute(page, text, vars(documented("toy.py")) if page.name == "extending.md" else {})
        for command in commands(text) if language in COMMANDS else ():
            what = how(command)
            if isinstance(what, Run):
                call(command, what)
            elif isinstance(what, Elsewhere):
                assert (ROOT / what.test).exists(), what
                assert not command.startswith("make ") or command in (ROOT / what.test).read_text(encoding="utf-8")
                if "soundwhere" in (words := shlex.split(command)):
                    parsed(words[words.index("soundwhere") + 1 :])
            if command.startswith("soundwhere annotate") and "--" not in command:
                annotate(Path(shlex.split(command)[2]))


def execute(page: Path, text: str, known: dict[str, object]) -> None:
    """Run code, but for what another test runs or nobody can."""
    for (name, word), what in CODE.items():
        if page.name == name and word in text:
            assert isinstance(what, Not) or (ROOT / what.test).exists()
            return
    names: dict[str, object] = {**known, "__name__": "page"}
    exec(compile(text, page.name, "exec", dont_inherit=True), names)


@pytest.mark.parametrize("page", [ROOT / "README.md", *PAGES], ids=lambda page: page.name)
def test_blocks_say_what_they_are(page: Path) -> None:
    assert {language for language, _ in blocks(page)} <= {*COMMANDS, *DATA, "python"}


@pytest.mark.parametrize("page", [ROOT / "README.md", *PAGES], ids=lambda page: page.name)
def test_commands_in_sentences_have_valid_options(
    page: Path,
    desk: Path,
    monkeypatch: pytest.MonkeyPatch,
    parsed: Callable[[list[str]], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A sentence may leave out what a command needs, never name what it does not know."""
    monkeypatch.chdir(desk)
    prose = BLOCK.sub("", page.read_text(encoding="utf-8"))
    for command in dict.fromkeys(INLINE.findall(prose)):
        if STANDS_FOR.search(command) or "--help" in command:
            continue
        try:
            parsed(shlex.split(command)[1:])
        except SystemExit:
            said = "".join(capsys.readouterr()).lower()
            assert not re.search("unrecognized|invalid|no command|no file", said), f"{command}: {said}"


def test_every_way_is_in_use() -> None:
    """A command that left the pages leaves the table."""
    present = [
        command
        for page in PAGES
        for language, text in blocks(page)
        if language in COMMANDS
        for command in commands(text)
    ]
    unused = {beginning for beginning in HOW if not any(how(command) is HOW[beginning] for command in present)}
    assert not unused
    for name, word in CODE:
        matched = [text for language, text in blocks(ROOT / "docs" / name) if language == "python" and word in text]
        assert len(matched) == 1, f"{name}: {word!r} must name one block, so that no other is left out with it"


def test_every_room_and_every_public_name_is_in_the_reference() -> None:
    listed = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "docs" / "reference").glob("*.md"))
    package = ROOT / "src" / "soundwhere"
    rooms = {path.stem for path in package.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    for room in rooms - {"__init__", "__main__", "cli"}:  # commands have a page of their own
        assert f"::: soundwhere.{room}\n" in listed
    api = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    for name in set(soundwhere.__all__) - {"__version__"}:
        assert f".{name}]" in api
    pages = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    for path in (ROOT / "docs").rglob("*.md"):
        assert f": {path.relative_to(ROOT / 'docs')}\n" in pages
