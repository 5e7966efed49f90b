"""What is released: one version everywhere, a wheel that is not too large, and an import that takes no time."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import soundwhere

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "soundwhere"
BARE = os.environ.get("SOUNDWHERE_README_BIN")
MOST_BYTES = 70_000_000
MOST_SECONDS = 0.2

CLOCK = "import time; start = time.process_time(); import soundwhere; print(time.process_time() - start)"


@pytest.fixture(scope="module")
def dist() -> Path:
    """Wheel and source archive, as .ci/run builds them."""
    if "SOUNDWHERE_DIST" not in os.environ:
        pytest.skip("needs the archives that `.ci/run wheel` builds: SOUNDWHERE_DIST")
    return Path(os.environ["SOUNDWHERE_DIST"])


def test_the_import_takes_no_time() -> None:
    python = f"{BARE}/python" if BARE else sys.executable
    environment = {**os.environ, "PYTHONPATH": "" if BARE else str(ROOT / "src")}
    turns = [subprocess.check_output([python, "-c", CLOCK], env=environment, text=True) for _ in range(3)]
    assert min(map(float, turns)) < MOST_SECONDS


def test_what_goes_into_the_wheel_is_not_too_large() -> None:
    files = [path for path in PACKAGE.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    assert sum(path.stat().st_size for path in files) < MOST_BYTES


def test_the_wheel(dist: Path) -> None:
    (wheel,) = dist.glob("*.whl")
    assert wheel.name == f"soundwhere-{soundwhere.__version__}-py3-none-any.whl"
    assert wheel.stat().st_size < MOST_BYTES
    names = set(zipfile.ZipFile(wheel).namelist())
    there = {path.relative_to(PACKAGE.parent).as_posix() for path in (PACKAGE / "weights").rglob("*") if path.is_file()}
    assert there <= names
    assert "soundwhere/py.typed" in names
    assert not [name for name in names if not name.startswith(("soundwhere/", "soundwhere-"))]


def test_the_card_tells_how_large_the_weights_are() -> None:
    card = (ROOT / "MODEL_CARD.md").read_text(encoding="utf-8")
    told = dict(re.findall(r"^\| `(scav-[a-z]+)`[^|]*\|[^|]*\| ([\d.]+) MB \|", card, re.MULTILINE))
    files = {path.stem: path.stat().st_size for path in (PACKAGE / "weights").glob("*.safetensors")}
    assert {name: f"{size / 1e6:.1f}" for name, size in files.items()} == told


def test_the_version_is_told_once() -> None:
    """The changelog's newest section is this version's, or still to be released."""
    sections = re.findall(r"^## \[([^\]]+)\]", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert soundwhere.__version__ in sections[:2]
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {soundwhere.__version__}\n" in citation


def test_every_part_of_ci_is_run_by_the_workflow() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    parts = re.findall(r"^(\w+)\(\) \{", script, re.MULTILINE)
    parts.remove("pip")
    assert len(parts) == 6
    for part in parts:
        assert f".ci/run {part}" in workflow or f"- {part}\n" in workflow
