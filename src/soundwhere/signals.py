"""Ctrl-C reaches every process of a command: those that help leave it to the first one, which ends them."""

from __future__ import annotations

import signal
from contextlib import contextmanager
from multiprocessing import resource_tracker
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def ctrl_c_blocked() -> Iterator[None]:
    """A process that is started within does not hear Ctrl-C, unless it chooses to."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # it unblocks Ctrl-C when it starts, so it starts first
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
