"""Fixtures shared by every room."""

from __future__ import annotations

import csv
import json
import multiprocessing
import os
import re
import shutil
import signal
import sys
from dataclasses import dataclass
from fractions import Fraction
from multiprocessing.forkserver import ensure_running
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import av
import numpy as np
import pytest
import torch
from hypothesis import settings
from PIL import Image
from tests.programs import Program, warm_context
from torch.multiprocessing import start_processes

from soundwhere.constants import SAMPLE_RATE_HZ
from soundwhere.data.synthetic.movie import write_movie
from soundwhere.data.synthetic.world import World
from soundwhere.media.audio import write_wav

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from multiprocessing.context import BaseContext

    from torch import Tensor

settings.register_profile("ci", derandomize=True, deadline=None)
settings.load_profile("ci")
# small tensors: a second thread costs more than it gives, most of all on a busy machine; also in what tests start
torch.set_num_threads(1)
os.environ.setdefault("OMP_NUM_THREADS", "1")


# files that take more than ten seconds, the longest first
LONGEST = [
    "cli/test_reproduce",
    "training/test_two_hosts",
    "methods/test_rivals",
    "live/test_browser",
    "annotate/test_browser",
    "evaluation/test_two_processes",
    "serve/test_browser",
    "test_docs",
    "annotate/test_browser_team",
    "methods/test_several_rivals",
    "cli/analyse/test_analyse",
    "annotate/test_browser_editing",
    "cli/test_evaluate",
    "serve/test_worker",
    "serve/test_server",
    "cli/test_localise",
    "preparation/test_prepare",
    "cli/analyse/test_compare",
    "training/test_two_processes",
    "test_readme",
    "methods/test_published",
    "cli/analyse/test_collections",
]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that take their time come first, so that no worker is left alone with one at the end."""
    places = {Path(__file__).parent / f"{name}.py": place for place, name in enumerate(LONGEST)}
    marked = {item.path for item in items if any(map(item.get_closest_marker, ("slow", "browser")))}
    items.sort(key=lambda item: (places.get(item.path, len(places)), item.path not in marked))


@pytest.fixture(scope="session")
def shared() -> Path:
    """Real clips, annotations and weights that are never part of the repository."""
    folder = Path(__file__).parents[2] / "shared"
    if not folder.is_dir():
        pytest.skip(f"needs the real clips and weights in {folder.name}/ beside the repository")
    return folder


@pytest.fixture(scope="session")
def documented() -> Callable[[str], ModuleType]:
    """The complete examples of docs/extending.md as modules: `documented("toy.py")`."""
    text = (Path(__file__).parents[1] / "docs" / "extending.md").read_text(encoding="utf-8")
    blocks = dict(re.findall(r'```python title="([\w.]+)"\n(.*?)```', text, re.DOTALL))

    def load(name: str) -> ModuleType:
        module = ModuleType(name.removesuffix(".py"))
        sys.modules[module.__name__] = module  # where dataclasses look their module up
        exec(compile(blocks[name], name, "exec"), module.__dict__)
        return module

    return load


@pytest.fixture(scope="session")
def chromium() -> str:
    """A Chromium to drive; without one browser tests are skipped, or fail where CI asks for them."""
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        reason = "needs Chromium; install it with your system's package manager"
        if os.environ.get("SOUNDWHERE_REQUIRE_BROWSER"):
            pytest.fail(reason)
        pytest.skip(reason)
    return found


@pytest.fixture(scope="session")
def axe() -> str:
    """axe-core, which looks for what keeps people out; from `npm install axe-core` in the repository, or a path."""
    path = Path(
        os.environ.get("SOUNDWHERE_AXE", Path(__file__).parents[1] / "node_modules" / "axe-core" / "axe.min.js")
    )
    if not path.is_file():
        reason = "needs axe-core: npm install axe-core, or name axe.min.js in SOUNDWHERE_AXE"
        if os.environ.get("SOUNDWHERE_AXE"):  # which CI sets
            pytest.fail(reason)
        pytest.skip(reason)
    return path.read_text(encoding="utf-8")


@pytest.fixture(scope="session")
def warm() -> BaseContext:
    """Starts processes as forks of one that has imported torch already: that alone takes seconds, every time."""
    context = multiprocessing.get_context("forkserver")
    training = ("training.run", "cli.train")
    localising = ("inference.localiser", "inference.writers", "serve.worker", "cli.localise", "cli.live", "cli.serve")
    serving = ("serve.server", "live.server", "cli.annotate", "annotate.server", "annotate.segmenter.simple")
    ours = (f"soundwhere.{name}" for name in (*training, *localising, *serving, "cli.evaluate", "evaluation.scoring"))
    theirs = ("torch._dynamo", "torch.distributed.run", "torchmetrics", "scipy.signal", "pytest")
    context.set_forkserver_preload([*theirs, *ours])
    ensure_running()  # now, or what starts it would leave its mark on all that follow, such as blocked signals
    return context


@pytest.fixture
def warm_workers(warm: BaseContext, monkeypatch: pytest.MonkeyPatch) -> None:
    """Worker processes that start within milliseconds; that they can be spawned is tested in inference/test_pool.py."""
    monkeypatch.setattr(multiprocessing, "get_context", warm_context)


@pytest.fixture(scope="session")
def start_program(warm: BaseContext, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Program]]:
    """Starts `soundwhere` with arguments in the current folder; what still runs at the end is ended."""
    folder, started = tmp_path_factory.mktemp("programs"), []

    def start(*arguments: str) -> Program:
        with pytest.MonkeyPatch.context() as patch:
            patch.syspath_prepend(Path(__file__).parents[1])  # where the new process finds this file
            started.append(Program(warm, folder / f"{len(started)}.txt", arguments))
        return started[-1]

    yield start
    for program in started:
        if program.poll() is None:
            program.send_signal(signal.SIGKILL)


@pytest.fixture(scope="session")
def on_two_processes(warm: BaseContext) -> Callable[..., None]:
    """Calls a function of a test file on two processes, with the rank of each and what else it is given."""

    def run(work: Callable[..., None], *arguments: Any) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.syspath_prepend(Path(__file__).parents[1])  # where new processes find the file
            start_processes(work, arguments, nprocs=2, start_method=warm.get_start_method())

    return run


@pytest.fixture(scope="session")
def clip_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """2 s of a white square moving right over grey, 96 x 64 at 10 fps, with a 440 Hz tone: H.264 and AAC in mp4."""
    path = tmp_path_factory.mktemp("clip") / "clip.mp4"
    tone = (0.3 * np.sin(2 * np.pi * 440 * np.arange(2 * 22_050) / 22_050)).astype(np.float32)
    with av.open(path, "w") as container:
        video = container.add_stream("libx264", rate=10, width=96, height=64, pix_fmt="yuv420p")
        audio = container.add_stream("aac", rate=22_050, layout="mono")
        for index in range(20):
            picture = np.full((64, 96, 3), 80, np.uint8)
            picture[24:40, 4 * index : 4 * index + 16] = 255
            frame = av.VideoFrame.from_ndarray(picture, format="rgb24")
            frame.pts, frame.time_base = index, Fraction(1, 10)
            container.mux(video.encode(frame))
        sound = av.AudioFrame.from_ndarray(tone[None], format="fltp", layout="mono")
        sound.sample_rate, sound.pts, sound.time_base = 22_050, 0, Fraction(1, 22_050)
        container.mux(audio.encode(sound))
        container.mux(video.encode(None))
        container.mux(audio.encode(None))
    return path


@pytest.fixture(scope="session")
def movie(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """2 s of the made-up world with two sounding things."""
    path = tmp_path_factory.mktemp("movie") / "made-up.mp4"
    write_movie(path, World(seed=0), 0, seconds=2.0, fps=10)
    return path


CLASSES = ("bell", "drum", "horn")
PER_CLASS = 3


def write_csv(path: Path, rows: list[dict[str, str]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def tone(hertz: float, seconds: float, level: float = 0.2) -> np.ndarray:
    time_s = np.arange(round(seconds * SAMPLE_RATE_HZ)) / SAMPLE_RATE_HZ
    # rises over time, so that two parts of it are never equal
    return (level * (0.5 + time_s / seconds / 2) * np.sin(2 * np.pi * hertz * time_s)).astype(np.float32)


def make_real_duet(root: Path) -> Path:
    """9 train clips (photo i is filled with grey 20 + 20 i and sounds at 200 + 50 i Hz), a duet and a trio."""
    images, clips = [], []
    for folder in ("images", "audio", "masks"):
        (root / folder).mkdir(parents=True)
    for number in range(len(CLASSES) * PER_CLASS):
        kind, split = CLASSES[number // PER_CLASS], "val" if number % PER_CLASS == 2 else "train"
        photo, audio, mask = f"images/{number}.png", f"audio/{number}.wav", f"masks/{number}.png"
        Image.new("RGB", (40 + number, 32), (20 + 20 * number, 0, 255 - number)).save(root / photo)
        object_mask = np.zeros((32, 40 + number), np.uint8)
        object_mask[8:24, 10 : 20 + number] = 255
        Image.fromarray(object_mask).convert("1").save(root / mask)
        write_wav(root / audio, tone(200 + 50 * number, 5, 0.05 * (number + 1)))
        images.append({"image": photo, "class": kind, "split": split, "mask": mask, "mask_kind": "human"})
        clips.append({"id": f"c{number}", "split": split, "class": kind, "image": photo, "audio": audio})
    images[4]["mask_kind"] = "derived"
    images[0] |= {"mask": "", "mask_kind": ""}
    write_csv(root / "images.csv", images)
    write_csv(root / "clips.csv", clips)
    duet = {
        "id": "d0",
        "images": "images/2.png|images/4.png",
        "classes": "bell|drum",
        "audios": "audio/2.wav|audio/4.wav",
    }
    write_csv(root / "duets_val.csv", [duet])
    trio = {
        "id": "t0",
        "images": "images/2.png|images/5.png|images/8.png",
        "classes": "bell|drum|horn",
        "audios": "audio/2.wav||audio/8.wav",
    }
    write_csv(root / "trios_val.csv", [trio])
    return root


@pytest.fixture(scope="session")
def mini_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A miniature real-duet that no test changes."""
    return make_real_duet(tmp_path_factory.mktemp("real-duet"))


@pytest.fixture
def own_root(tmp_path: Path) -> Path:
    """A miniature real-duet to spoil."""
    return make_real_duet(tmp_path / "real-duet")


DEEP = "[" * 60 + "1" + "]" * 60
# JSON as people and programs write it that nobody reckoned with
VALUES = (
    *("Infinity", "NaN", "1e999", "1e308", "-1e308", "9" * 400, "-" + "9" * 400, "9" * 5000, str(2**63), str(2**64)),
    *("0", "-1", "true", "null", '"text"', '""', "{}", "[]", "[[]]", "[null]", DEEP),
    *("[" * 3000, f"[{DEEP}, {DEEP}, {DEEP}, {DEEP}]", json.dumps("x" * 300), '"\\ud800"', '"a\\u0000b"', '{"a": [1]}'),
    *("[1e308, 1e308, 1e308, 1e308]", "[-1e308, 0, 1e308, 1]", "[true, true, false, false]", '["1", "2", "3", "4"]'),
)
HOLE = "a hole to be filled"


def holes(value: Any) -> Iterator[Any]:
    """Every variant of a JSON value in which one part, or a key, is a hole."""
    yield HOLE
    if isinstance(value, dict):
        for key, part in value.items():
            yield from ({**value, key: variant} for variant in holes(part))
            yield {other: part for other, part in value.items() if other != key}
    elif isinstance(value, list):
        for place, part in enumerate(value):
            yield from ([*value[:place], variant, *value[place + 1 :]] for variant in holes(part))


@pytest.fixture(scope="session")
def spoilt() -> Callable[[str], Iterator[str]]:
    """Makes of JSON every version in which one part of it is replaced by something nobody reckoned with."""

    def spoil(text: str) -> Iterator[str]:
        for variant in holes(json.loads(text)):
            pattern = json.dumps(variant)
            yield from dict.fromkeys(pattern.replace(json.dumps(HOLE), value) for value in VALUES)

    return spoil


@dataclass(frozen=True)
class Recording:
    """What the published code of a method gave: inputs, weights (`w.`), maps, losses and gradients, in float64."""

    method: str
    arrays: Mapping[str, Tensor]

    def __getitem__(self, name: str) -> Tensor:
        return self.arrays[name]

    def weights(self, prefix: str = "w.") -> dict[str, Tensor]:
        """Weights under the names they have in published checkpoints."""
        return {name.removeprefix(prefix): array for name, array in self.arrays.items() if name.startswith(prefix)}

    def leaves(self, *names: str) -> list[Tensor]:
        """Arrays to take gradients with respect to."""
        return [self.arrays[name].clone().requires_grad_(True) for name in names]

    def agree(self, tolerance: float = 1e-6, **found: Tensor) -> None:
        """Assert that tensors are what was recorded under their names, relative to its largest magnitude."""
        wrong = {}
        for name, tensor in found.items():
            expected = self.arrays[name].double()
            error = float("inf")
            if tensor.shape == expected.shape:
                largest = expected.abs().max().clamp_min(1e-12)
                error = float((tensor.detach().double() - expected).abs().max() / largest)
            self._note(name, error)
            if not error <= tolerance:
                wrong[name] = error
        assert not wrong, f"{self.method}: {wrong}"

    def agree_gradients(self, loss: Tensor, **leaves: Tensor) -> None:
        """Assert that the gradients of a loss are what was recorded, by their recorded names."""
        gradients = torch.autograd.grad(loss, list(leaves.values()), retain_graph=True)
        self.agree(**dict(zip(leaves, gradients, strict=True)))

    def _note(self, name: str, error: float) -> None:
        """Add a line to the file that SOUNDWHERE_AGREEMENT names, of which the table in docs/rivals.md is made."""
        if os.environ.get("SOUNDWHERE_AGREEMENT"):
            with Path(os.environ["SOUNDWHERE_AGREEMENT"]).open("a", encoding="utf-8") as lines:
                lines.write(f"{self.method}\t{name}\t{error:.1e}\n")


@pytest.fixture(scope="session")
def oracle(shared: Path) -> Callable[[str], Recording]:
    """Recorded numbers of the published implementations, by name: `oracle("lvs")`."""

    def read(name: str) -> Recording:
        path = shared / "oracles" / f"{name}.npz"
        if not path.is_file():
            pytest.skip(f"needs the recorded numbers {path.name} in shared/oracles/ beside the repository")
        with np.load(path, allow_pickle=False) as arrays:
            tensors = {key: torch.from_numpy(np.asarray(arrays[key])) for key in arrays.files}
        return Recording(name, {key: t.double() if t.is_floating_point() else t for key, t in tensors.items()})

    return read
