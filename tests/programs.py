"""The command in processes that are forks of one that has imported torch already."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import subprocess
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING

from torch.distributed.run import main as main_of_torchrun

from soundwhere.cli.main import main

if TYPE_CHECKING:
    from collections.abc import Sequence
    from multiprocessing.context import BaseContext

_NETWORK, _MOUNTS = 0x40000000, 0x20000  # CLONE_NEWNET and CLONE_NEWNS of <sched.h>

_get_context = multiprocessing.get_context


def warm_context(name: str | None = None) -> BaseContext:
    """`multiprocessing.get_context`, but what is to be spawned is forked off the warm process."""
    return _get_context("forkserver" if name == "spawn" else name)


def run_program(arguments: list[str], folder: Path, out: Connection, err: Path) -> None:
    """What a `Program` does in its process."""
    os.chdir(folder)
    os.dup2(out.fileno(), 1)
    out.close()
    with err.open("ab") as file:
        os.dup2(file.fileno(), 2)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # also where the tests were told to ignore it
    multiprocessing.get_context = warm_context  # type: ignore[assignment]
    main(arguments)


def enter_namespace(name: str) -> None:
    """What `ip netns exec` does before it starts a program: another network, with files of its own below /etc."""
    system = ctypes.CDLL(None, use_errno=True)
    with Path("/var/run/netns", name).open() as file:
        assert system.setns(file.fileno(), _NETWORK) == 0, os.strerror(ctypes.get_errno())
    assert system.unshare(_MOUNTS) == 0, os.strerror(ctypes.get_errno())
    subprocess.run(["mount", "--make-rslave", "/"], check=True)
    for path in Path("/etc/netns", name).iterdir():
        subprocess.run(["mount", "--bind", path, Path("/etc", path.name)], check=True)


def run_torchrun(
    arguments: list[str], folder: Path, environment: dict[str, str], log: Path, namespace: str = ""
) -> None:
    """What `torchrun` does in a process of its own; those that it starts are as new as ever.

    Args:
        arguments: Of torchrun.
        folder: Where it works.
        environment: All there is of it.
        log: What it and its processes say is added here.
        namespace: The network that it lives in; by default this one.
    """
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    with log.open("ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    if namespace:
        enter_namespace(namespace)
    main_of_torchrun(arguments)


class Program:
    """`soundwhere` in a process of its own, which starts within milliseconds; like `subprocess.Popen`.

    Attributes:
        stdout: What it prints.
        err: The file of what it complains about.
    """

    def __init__(self, warm: BaseContext, err: Path, arguments: Sequence[str]) -> None:
        self.err = err
        reading, writing = os.pipe()
        self.stdout = os.fdopen(reading, encoding="utf-8")
        with Connection(writing, readable=False) as out:
            given = (list(arguments), Path.cwd(), out, err)
            self._process = warm.Process(target=run_program, args=given)  # type: ignore[attr-defined]
            self._process.start()
        self.pid = self._process.pid

    @property
    def returncode(self) -> int | None:
        code: int | None = self._process.exitcode
        return code

    def poll(self) -> int | None:
        return self.returncode

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def wait(self, timeout: float) -> int:
        self._process.join(timeout)
        assert self.returncode is not None, "it has not ended"
        return self.returncode

    def communicate(self, timeout: float) -> tuple[str, str]:
        """Wait for its end; the rest of what it printed, and all it complained about."""
        self.wait(timeout)
        with self.stdout:
            return self.stdout.read(), self.err.read_text(encoding="utf-8")
