from __future__ import annotations

import os
import platform
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
import torch

from soundwhere import cores

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """One with 64 processors, of which this process may use 6, and without a quota."""
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(6)), raising=False)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(cores, "_QUOTAS", ("/none", "/none", "/none"))
    monkeypatch.setattr(cores, "_limit", None)


@pytest.mark.parametrize(
    ("said", "expected"), [("max 100000", 6), ("250000 100000", 3), ("50000 100000", 1), ("900000 100000", 6), ("", 6)]
)
def test_a_containers_quota_counts(said: str, expected: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cpu.max").write_text(f"{said}\n")
    monkeypatch.setattr(cores, "_QUOTAS", (str(tmp_path / "cpu.max"), "/none", "/none"))
    assert cores.allowed() == cores.cores() == expected


@pytest.mark.parametrize(("quota", "expected"), [("200000", 2), ("-1", 6)])
def test_older_containers_have_two_files(
    quota: str, expected: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "quota").write_text(quota)
    (tmp_path / "period").write_text("100000")
    monkeypatch.setattr(cores, "_QUOTAS", ("/none", str(tmp_path / "quota"), str(tmp_path / "period")))
    assert cores.allowed() == expected


def test_people_and_siblings_ask_for_less(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "4,2")
    assert (cores.allowed(), cores.cores()) == (6, 4)
    monkeypatch.delenv("OMP_NUM_THREADS")
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(9)
        cores.limit(3)
        assert (cores.allowed(), cores.cores(), torch.get_num_threads()) == (6, 3, 3)
        cores.settle(2)
        assert torch.get_num_threads() == 2
        cores.settle()  # never more than there were
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    monkeypatch.delitem(sys.modules, "torch")
    cores.settle(1)  # nothing to settle, and nothing is loaded
    assert "torch" not in sys.modules
    assert cores.torch_threads() == 3


_FAULTS = """
import resource
from soundwhere import cores
{keep}
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for size in range(10):
    b'x' * ((64 << 20) + size)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the C library is not glibc")
def test_freed_memory_is_used_again() -> None:
    """The system hands out pages once, not anew for every array."""

    def faults(keep: str) -> int:
        script = _FAULTS.format(keep=keep)
        return int(subprocess.run([sys.executable, "-c", script], capture_output=True, check=True).stdout)

    assert faults("cores.keep_memory()") < faults("") / 2


def test_waiting_threads_leave_processors_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "3")
    cores.wait_politely()
    assert os.environ["OMP_WAIT_POLICY"] == "PASSIVE"
    assert os.environ["OPENBLAS_NUM_THREADS"] == "3"  # who has said something is not overruled
    monkeypatch.delenv("OPENBLAS_NUM_THREADS")
    cores.wait_politely()
    assert os.environ["OPENBLAS_NUM_THREADS"] == "1"
