"""How much of the machine this process takes: no more threads than it may use, and memory that it keeps for itself.

More threads only wait for each other; torch counts those of the machine, whatever a container, a job or `taskset`
allows.
"""

from __future__ import annotations

import ctypes
import math
import os
import sys
from contextlib import suppress
from pathlib import Path

_QUOTAS = ("/sys/fs/cgroup/cpu.max", "/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "/sys/fs/cgroup/cpu/cpu.cfs_period_us")
# glibc's names for what `mallopt` sets
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_MAX = -1, -2, -4
_limit: int | None = None


def allowed() -> int:
    """Processors this process may use: those it was bound to, as a job of Slurm is, at most its container's quota."""
    bound = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(bound, _quota() or bound))


def cores() -> int:
    """Processors it takes: those it may use, at most OMP_NUM_THREADS and what `limit` said."""
    asked = os.environ.get("OMP_NUM_THREADS", "").split(",")[0]
    return max(1, min(allowed(), int(asked) if asked.isdecimal() else allowed(), _limit or allowed()))


def limit(count: int) -> None:
    """Use no more than so many from now on, as one of several processes that share a machine does."""
    global _limit
    _limit = max(1, count)
    settle()


def settle(count: int | None = None) -> None:
    """Give torch, if it is loaded, so many threads for what this thread asks of it; by default at most `cores`."""
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(count or min(torch.get_num_threads(), cores()))


def wait_politely() -> None:
    """Let torch's threads sleep while they wait, and numpy have none of its own: else they keep processors from others.

    To be called before either is loaded.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # its products are small


def keep_memory() -> None:
    """Use freed memory again instead of giving it back, where the C library is glibc; nothing happens elsewhere.

    Otherwise every large tensor is new memory, whose pages the system clears first. For a process that computes and
    ends; one that waits for visitors should give memory back.
    """
    with suppress(OSError, AttributeError, TypeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_MMAP_MAX, 0)
        mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)
        mallopt(_M_TOP_PAD, 1 << 28)


def torch_threads() -> int:
    """How many threads torch has for what this thread asks of it, if it is loaded; else those it should get."""
    torch = sys.modules.get("torch")
    return cores() if torch is None else int(torch.get_num_threads())


def _quota() -> int | None:
    """The processors that a container's share of time amounts to, rounded up; None without one."""
    with suppress(OSError, ValueError):
        quota, period = Path(_QUOTAS[0]).read_text(encoding="ascii").split()
        return math.ceil(int(quota) / int(period))  # "max" is not a number
    with suppress(OSError, ValueError):
        quota, period = (Path(place).read_text(encoding="ascii") for place in _QUOTAS[1:])
        return math.ceil(int(quota) / int(period)) if int(quota) > 0 else None
    return None
