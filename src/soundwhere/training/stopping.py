"""SIGTERM is a request: the step under way ends, a checkpoint is written, then the run ends.

Clusters send it before they take a machine away, and often several: Slurm one to every process, srun and torchrun one
each to those they started. More of them change nothing, or a checkpoint would be lost. Ctrl-C ends a run at once.
"""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from types import FrameType


class StopRequest:
    """Notes SIGTERM while it is open; in a thread that cannot hear signals, nothing happens.

    A request that came with the very last step is raised as a `KeyboardInterrupt` at the end.
    """

    def __init__(self) -> None:
        self._came = False
        self._before: Any = None

    def came(self) -> bool:
        """Whether the run is to end."""
        return self._came

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGTERM, self._note)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGTERM, self._before)
        if self._came and kind is None:
            raise KeyboardInterrupt

    def _note(self, _number: int, _frame: FrameType | None) -> None:
        self._came = True
