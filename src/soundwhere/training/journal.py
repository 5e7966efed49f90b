"""What a run leaves to read: a progress display, metrics.jsonl, and TensorBoard where it is installed."""

from __future__ import annotations

import json
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from soundwhere.distributed import is_main
from soundwhere.files import output_error, write_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from soundwhere.training.checkpoint import Progress as Place

# Without a terminal to redraw, a line this often.
PLAIN_EVERY_S = 15.0
METRICS = "metrics.jsonl"


class Journal:
    """Writes down the statistics of a stage's steps. Only the main process writes; on the others nothing happens."""

    def __init__(self, folder: Path, place: Place, steps: int, batch_size: int, every: int) -> None:
        self._lines = folder / METRICS
        self._stage, self._steps, self._batch_size, self._every = place.stage, steps, batch_size, every
        self._began, self._first = time.monotonic(), place.step
        self._spoke = 0.0
        self._console = Console(stderr=True)
        self._progress: Progress | None = None
        self._board: Any = None
        if not is_main():
            return
        forget_later_lines(self._lines, place)
        self._board = _tensorboard(folder)
        if self._console.is_terminal:
            self._progress = Progress(
                TextColumn("stage {task.fields[stage]}"),
                BarColumn(),
                TextColumn("{task.completed}/{task.total}  {task.fields[text]}"),
                TimeRemainingColumn(),
                console=self._console,
            )
            self._task = self._progress.add_task("", total=steps, completed=place.step, stage=self._stage, text="")

    def __enter__(self) -> Self:
        if self._progress is not None:
            self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._progress is not None:
            self._progress.stop()
        if self._board is not None:
            self._board.close()

    def write(self, place: Place, statistics: dict[str, float]) -> None:
        """Note one step."""
        if not is_main():
            return
        rate = (place.step - self._first) * self._batch_size / max(time.monotonic() - self._began, 1e-9)
        if place.step % self._every == 0 or place.step == self._steps:
            line = {"stage": place.stage, "step": place.step, **statistics, "samples_per_s": rate}
            try:
                with self._lines.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(line) + "\n")
            except OSError as error:
                raise output_error(self._lines, error) from error
            if self._board is not None:
                for name, value in statistics.items():
                    self._board.add_scalar(f"stage-{place.stage}/{name}", value, place.step)
        self._show(place, statistics, rate)

    def _show(self, place: Place, statistics: dict[str, float], rate: float) -> None:
        peaks = " ".join(f"{name} {value:.2f}" for name, value in statistics.items() if name != "loss")
        text = f"loss {place.smooth_loss:.3f}  {peaks}  {rate:.0f} samples/s"
        if self._progress is not None:
            self._progress.update(self._task, completed=place.step, text=text)
        elif time.monotonic() - self._spoke > PLAIN_EVERY_S or place.step == self._steps:
            self._spoke = time.monotonic()
            left = (self._steps - place.step) * self._batch_size / max(rate, 1e-9)
            print(f"stage {place.stage}  {place.step}/{self._steps}  {text}  {left:.0f} s left", file=sys.stderr)


@contextmanager
def preparing(what: str) -> Iterator[Callable[[int, int], None]]:
    """Show the progress of work before training; yields a function to call with what is done and what there is.

    Where there is no terminal, that is a line now and then.
    """
    console = Console(stderr=True)
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    spoke = time.monotonic()
    with Progress(
        *columns, console=console, disable=not (is_main() and console.is_terminal), transient=True
    ) as progress:
        task = progress.add_task(what)

        def update(done: int, total: int) -> None:
            nonlocal spoke
            progress.update(task, completed=done, total=total)
            if is_main() and not console.is_terminal and time.monotonic() - spoke >= PLAIN_EVERY_S:
                spoke = time.monotonic()
                print(f"{what} {done}/{total}", file=sys.stderr, flush=True)

        yield update


def forget_later_lines(path: Path, place: Place) -> None:
    """Drop the lines a killed run wrote after its last checkpoint: the resumed run writes them again."""
    if not path.exists():
        return
    kept = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            entry = json.loads(line)  # a loss may be NaN
            later = entry["stage"] == place.stage and entry["step"] > place.step
        except (ValueError, RecursionError, KeyError, TypeError):  # the line being written when the process died
            continue
        if not later:
            kept.append(line + "\n")
    write_text(path, "".join(kept))


def _tensorboard(folder: Path) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(str(folder / "tensorboard"))
