"""Data flows one way: every room imports only itself and the rooms before it. Read from the source, nothing is run."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from pathlib import Path

import pytest

import soundwhere

ROOT = Path(soundwhere.__file__).parent
FIRST = ("constants", "errors", "types", "config", "files", "cores", "signals", "distributed", "web")
ROOMS = (
    *("media", "data", "losses", "models", "methods", "metrics", "training", "evaluation", "inference", "preparation"),
    *("analysis", "reproduction", "annotate", "serve", "live", "bench", "terminal", "cli"),
)
PLACE = {**dict.fromkeys(FIRST, 0), **{room: number for number, room in enumerate(ROOMS, 1)}}

# The package's own face, which names what is public, and the door to the command line
FACES = {"__init__", "__main__"}
MODULES = sorted(path for path in ROOT.rglob("*.py") if path.relative_to(ROOT).with_suffix("").as_posix() not in FACES)


def imported(source: str) -> set[str]:
    """The rooms a module imports from, wherever in it, also for type checking only."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports name the whole path"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        found |= {name.split(".")[1] for name in names if name.startswith("soundwhere.")}
    return {name for name in found if name != "__version__"}


def at_import(tree: ast.Module) -> set[str]:
    """The packages imported when a module is, except for type checking."""
    found: set[str] = set()
    todo: list[ast.AST] = list(tree.body)
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add((node.module or "").split(".")[0])
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            todo.extend(node.orelse)
        elif not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            todo.extend(ast.iter_child_nodes(node))
    return found


def test_every_module_has_a_room() -> None:
    assert {path.relative_to(ROOT).parts[0].removesuffix(".py") for path in MODULES} == set(PLACE)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_rooms_import_only_rooms_before_them(path: Path) -> None:
    room = path.relative_to(ROOT).parts[0].removesuffix(".py")
    wrong = {name for name in imported(path.read_text(encoding="utf-8")) if PLACE[name] > PLACE[room]}
    assert not wrong, f"{room} comes before {', '.join(sorted(wrong))}"


@pytest.mark.parametrize(
    "path",
    [path for path in MODULES if path.relative_to(ROOT).parts[0] in ("terminal", "cli")],
    ids=lambda path: path.relative_to(ROOT).as_posix(),
)
def test_commands_import_torch_only_when_they_run(path: Path) -> None:
    assert "torch" not in at_import(ast.parse(path.read_text(encoding="utf-8")))


def test_what_is_imported_with_a_module_is_what_the_package_depends_on() -> None:
    project = tomllib.loads((ROOT.parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    names = [re.split(r"[^\w-]", line)[0] for line in project["dependencies"]]
    known = {"PIL" if name == "pillow" else name.replace("-", "_") for name in names}
    known |= {"pydantic", "starlette", "h11"}  # what fastapi and uvicorn are made of
    wrong = [
        f"{path.relative_to(ROOT)}: {package}"
        for path in MODULES
        for package in at_import(ast.parse(path.read_text(encoding="utf-8"))) - known - sys.stdlib_module_names
        if package not in ("soundwhere", "__future__")
    ]
    assert wrong == []


def test_the_reading_sees_what_it_should() -> None:
    source = """
import numpy, soundwhere.media.audio
from typing import TYPE_CHECKING
from soundwhere import __version__, distributed
if TYPE_CHECKING:
    import torch
    from soundwhere.training.loop import run_stage
def f():
    import scipy
    from soundwhere.methods import scav
"""
    assert imported(source) == {"media", "distributed", "training", "methods"}
    assert at_import(ast.parse(source)) == {"numpy", "soundwhere", "typing"}
