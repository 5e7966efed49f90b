"""`soundwhere doctor`: what is installed, what is missing, and what to do about it."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import sys
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from soundwhere import __version__
from soundwhere.files import cache_folder, sha256
from soundwhere.terminal.options import named, parse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from soundwhere.config import MethodConfig

DESCRIPTION = """\
Print versions, devices, weights, and what to do about what is missing; with a file or a model, what is in it.

Examples:
  soundwhere doctor
  soundwhere doctor scav-wide                     configuration and facts of a model
  soundwhere doctor runs/first/best.safetensors   the same of a trained one
  soundwhere doctor clip.mp4                      streams of a clip
"""


@dataclass(frozen=True)
class Options:
    """What to look at."""

    file: Annotated[Path | None, tyro.conf.Positional, named("[FILE]")] = None
    """A model, as its name, a file or a folder, or a media file."""


def run(arguments: list[str]) -> int:
    """Print what was found."""
    file = parse(Options, arguments, "doctor", description=DESCRIPTION).file
    if file is not None:
        is_model = file.is_dir() or file.suffix in (".safetensors", ".onnx") or _is_named(file)
        _print_model(file) if is_model else _print_media(file)
        return 0
    for title, lines in (
        ("versions", _versions()),
        ("devices", _devices()),
        ("extras", _extras()),
        ("weights", _weights()),
        ("browser", _browser()),
        ("cache", _cache()),
    ):
        print(title)
        for line in lines:
            print(f"  {line}")
    return 0


def _versions() -> Iterator[str]:
    yield f"{'soundwhere':<12} {__version__}"
    yield f"{'python':<12} {platform.python_version()} ({sys.executable})"
    for name in ("torch", "numpy", "scipy", "pillow", "av"):
        yield f"{name:<12} {_version(name) or 'missing: pip install --force-reinstall soundwhere'}"
    try:
        import av

        libraries = ", ".join(f"{name} {'.'.join(map(str, number))}" for name, number in av.library_versions.items())
        yield f"{'ffmpeg':<12} {libraries}"
    except ImportError as error:
        yield f"{'ffmpeg':<12} cannot be loaded ({error}): pip install --force-reinstall av"


def _devices() -> Iterator[str]:
    try:
        import torch
    except ImportError as error:
        yield f"torch cannot be loaded ({error}): pip install --force-reinstall torch"
        return
    threads = f"{torch.get_num_threads()} threads (OMP_NUM_THREADS changes it)"
    yield f"{'cpu':<12} {os.cpu_count()} cores, torch uses {threads}"
    for index in range(torch.cuda.device_count()):
        properties = torch.cuda.get_device_properties(index)
        yield f"{f'cuda:{index}':<12} {properties.name}, {properties.total_memory / 2**30:.0f} GB"
    if not torch.cuda.is_available():
        built = "built without CUDA" if torch.version.cuda is None else "no GPU found by torch; check the driver"
        yield f"{'cuda':<12} none ({built}); everything runs on the CPU"


def _extras() -> Iterator[str]:
    """One line per extra of the package, from its own metadata."""
    wanted: dict[str, list[str]] = {}
    for requirement in requires("soundwhere") or []:
        found = re.fullmatch(r"""([\w.-]+).*;.*extra == ['"](.+)['"]""", requirement)  # jinja2>=3.1; extra == "report"
        if found:
            wanted.setdefault(found[2], []).append(found[1])
    for extra, names in sorted(wanted.items()):
        packages = [name for name in names if name != "soundwhere"]
        missing = [package for package in packages if _version(package) is None]
        state = f"missing {', '.join(missing)}: pip install 'soundwhere[{extra}]'" if missing else "present"
        yield f"{extra:<12} {state}"


def _weights() -> Iterator[str]:
    from soundwhere.methods.files import SHIPPED, WEIGHTS

    for name, expected in SHIPPED.items():
        path = WEIGHTS / f"{name}.safetensors"
        if not path.is_file():
            state = "missing: install the package again"
        elif sha256(path) != expected:
            state = "damaged (its sha256 is not the published one): install the package again"
        else:
            state = f"built in, {_size(path.stat().st_size)}, sha256 ok"
        yield f"{name:<12} {state}"
    if not SHIPPED:
        yield "none built in: train one with `soundwhere train`, and give its file with --model"
    for title, folder in _weight_folders():
        files = sorted(file.name for ending in ("*.pth", "*.safetensors") for file in folder.glob(ending))
        yield f"{title:<12} {', '.join(files) or 'no weights'} in {folder}"


def _weight_folders() -> Iterator[tuple[str, Path]]:
    import torch

    from soundwhere.models.encoders.weights import WEIGHTS_FOLDER_VARIABLE

    if os.environ.get(WEIGHTS_FOLDER_VARIABLE):
        yield WEIGHTS_FOLDER_VARIABLE, Path(os.environ[WEIGHTS_FOLDER_VARIABLE])
    yield "torch hub", Path(torch.hub.get_dir()) / "checkpoints"


def _browser() -> Iterator[str]:
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    yield found or "no Chromium: only tests of the web pages need it (Debian, Ubuntu: apt-get install chromium)"


def _cache() -> Iterator[str]:
    folder = cache_folder()
    used = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    yield f"{folder}: {_size(used)}{' (may be deleted)' if used else ''}"


def _is_named(file: Path) -> bool:
    from soundwhere.methods.catalogue import is_named

    return is_named(str(file)) and not file.exists()


def _print_model(file: Path) -> None:
    from soundwhere.config import to_dict

    path, config, facts = _read_model(file)
    print(f"{path}: {config.name}, {_size(path.stat().st_size)}")
    for title, values in (("configuration", to_dict(config)), ("facts", facts)):
        if values:
            print(title)
        for key, value in values.items():
            print(f"  {key:<22} {value if isinstance(value, str) else json.dumps(value)}")


def _read_model(file: Path) -> tuple[Path, MethodConfig, dict[str, Any]]:
    """A model's file, its configuration, and its facts, which only files of training have."""
    from soundwhere.methods.files import HUB_WEIGHTS, load_model, model_file, read_facts

    if file.suffix == ".onnx":
        from soundwhere.inference.networks import read_onnx

        return file, read_onnx(file)[0], {}
    if (file / HUB_WEIGHTS).is_file():
        return file / HUB_WEIGHTS, load_model(file).config, {}
    path = model_file(file)
    return path, *read_facts(path)


def _print_media(file: Path) -> None:
    from soundwhere.media.video import probe

    info = probe(file)
    print(f"{file}: {info.describe()}")
    print(f"  streams   {info.streams}")
    if info.has_video and info.fps:
        print(f"  rate      {info.fps:.2f} frames per second")
    if not info.has_audio:
        print("  no sound: localise it with --audio RECORDING")
    if not info.has_video:
        print(f"  no picture: localise a photo with this sound: soundwhere photo.jpg --audio {file}")


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _size(count: int) -> str:
    return f"{count / 2**20:.1f} MB" if count >= 2**20 else f"{count / 1024:.0f} kB"
