"""The store: frames, tasks and events in one SQLite file.

Events are appended and never changed. What is read often, such as a task's state, is kept beside them in the same
transaction and can be computed again from them. An event is on the disk before its number is returned.
"""

from __future__ import annotations

import json
import secrets
import time
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from soundwhere import __version__
from soundwhere.annotate.database import Database
from soundwhere.annotate.doubts import work_doubts
from soundwhere.annotate.events import (
    DECISIONS,
    FINISHED,
    STATES,
    ConflictError,
    Event,
    State,
    Work,
    check_decision,
    fold,
)
from soundwhere.annotate.people import People
from soundwhere.errors import DataError

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from soundwhere.data.annotation.boxes import BoxNorm

_OF_TASK: Final = "SELECT * FROM events WHERE task = ? ORDER BY number"

LEASE_S: Final = 300.0
"""How long a task stays with an annotator who does nothing."""


@dataclass(frozen=True)
class FrameRecord:
    """A frame to annotate.

    Attributes:
        id: Number, by which it is asked for; never a path.
        name: The clip's id.
        kind: Its class.
        boxes_norm: Boxes as shares of the picture.
        size: (height, width) in pixels.
        picture: File name in the project.
        sound: File name in the project; empty without sound.
    """

    id: int
    name: str
    kind: str
    boxes_norm: tuple[BoxNorm, ...]
    size: tuple[int, int]
    picture: str
    sound: str

    @property
    def boxes(self) -> tuple[tuple[float, float, float, float], ...]:
        """Boxes in pixels, xyxy."""
        height, width = self.size
        return tuple((x1 * width, y1 * height, x2 * width, y2 * height) for x1, y1, x2, y2 in self.boxes_norm)

    def as_left(self, work: Work) -> FrameRecord:
        """The frame with the boxes that somebody left it with."""
        if work.boxes is None:
            return self
        height, width = self.size
        boxes = tuple((x1 / width, y1 / height, x2 / width, y2 / height) for x1, y1, x2, y2 in work.boxes)
        return replace(self, boxes_norm=boxes)


@dataclass(frozen=True)
class Task:
    """One pass over one frame; the second pass of a doubly annotated frame is a task of its own.

    Attributes:
        id: Its number.
        frame: The frame's number.
        second: Whether it is the second pass.
        revision: Number of its last event.
        state: What remains to be done.
        objects: How many are confirmed.
        annotator: Who decided first.
        doubts: Of a task that is done: what is odd about its masks.
    """

    id: int
    frame: int
    second: bool
    revision: int
    state: State
    objects: int
    annotator: str
    doubts: tuple[str, ...]


class Store:
    """The annotations of a project. One object may be used by many threads; many processes may open one file.

    Args:
        path: The SQLite file; made if it is not there.

    Raises:
        DataError: It is damaged, or not such a file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._database = Database(path)
        self.people = People(self._database)

    # Frames and tasks

    def add_frame(
        self,
        name: str,
        kind: str,
        boxes_norm: Sequence[BoxNorm],
        size: tuple[int, int],
        picture: str,
        sound: str,
        double: bool = False,
    ) -> int:
        """Add a frame and its task, or two tasks if it is to be annotated twice; one that is there stays as it is."""
        with self._database.writing() as connection:
            found = connection.execute("SELECT id FROM frames WHERE name = ?", (name,)).fetchone()
            if found is not None:
                return int(found["id"])
            values = (name, kind, json.dumps(boxes_norm), *size, picture, sound)
            fields = "name, kind, boxes, height, width, picture, sound"
            frame = connection.execute(f"INSERT INTO frames ({fields}) VALUES (?, ?, ?, ?, ?, ?, ?)", values).lastrowid
            for number in range(2 if double else 1):
                connection.execute("INSERT INTO tasks (frame, pass) VALUES (?, ?)", (frame, number))
            assert frame is not None
            return frame

    def frames(self) -> list[FrameRecord]:
        """Every frame, in the order in which they were added."""
        return [_frame(row) for row in self._database.rows("SELECT * FROM frames ORDER BY id")]

    def frame(self, number: int) -> FrameRecord:
        """One frame."""
        return _frame(self._row("frame", number))

    def tasks(self) -> list[Task]:
        """Every task, in the order of the frames; second passes come last."""
        return [_task(row) for row in self._database.rows("SELECT * FROM tasks ORDER BY pass, frame")]

    def task(self, number: int) -> Task:
        """One task."""
        return _task(self._row("task", number))

    def _row(self, what: str, number: int) -> sqlite3.Row:
        rows = self._database.rows(f"SELECT * FROM {what}s WHERE id = ?", number)
        if not rows:
            raise DataError(f"There is no {what} {number}.", "Reload the page.")
        return rows[0]

    # Leases

    def lease(self, task: int, annotator: str, seconds: float = LEASE_S) -> float:
        """Take a task, or keep it for longer.

        Returns:
            Until when, seconds since 1970.

        Raises:
            ConflictError: Somebody else has it, or made the other pass over the same frame.
        """
        with self._database.writing() as connection:
            return self._take(connection, task, annotator, seconds)

    def _take(self, connection: sqlite3.Connection, task: int, annotator: str, seconds: float) -> float:
        now = time.time()
        held = connection.execute("SELECT * FROM leases WHERE task = ?", (task,)).fetchone()
        if held is not None and held["annotator"] != annotator and held["until"] > now:
            raise ConflictError(
                f"{held['annotator']} is working on this frame.", "Go on to another; it will be free when they leave."
            )
        other = connection.execute(
            "SELECT b.id FROM tasks a JOIN tasks b ON a.frame = b.frame AND a.id != b.id "
            "WHERE a.id = ? AND b.annotator = ?",
            (task, annotator),
        ).fetchone()
        if other is not None:
            raise ConflictError("You annotated this frame in the other pass.", "Another person has to do this pass.")
        until = now + seconds
        connection.execute("INSERT OR REPLACE INTO leases VALUES (?, ?, ?)", (task, annotator, until))
        return until

    def release(self, task: int, annotator: str) -> None:
        """Give a task back."""
        with self._database.writing() as connection:
            connection.execute("DELETE FROM leases WHERE task = ? AND annotator = ?", (task, annotator))

    def leased(self) -> dict[int, str]:
        """Who works on which task now."""
        rows = self._database.rows("SELECT task, annotator FROM leases WHERE until > ?", time.time())
        return {row["task"]: row["annotator"] for row in rows}

    # Events

    def append(
        self,
        task: int,
        annotator: str,
        kind: str,
        body: Mapping[str, Any] | None = None,
        *,
        base: int,
        request: str | None = None,
        segmenter: str = "",
    ) -> Event:
        """Append a decision; when this returns, it is on the disk.

        Args:
            task: What it is about.
            annotator: Who decided.
            kind: What was done.
            body: With what.
            base: The task's revision that the annotator saw.
            request: A name for this one decision: sent again after a lost answer, it is not saved twice.
            segmenter: Name of the segmenter in use.

        Raises:
            ConflictError: The task changed since `base`, is with somebody else, or is finished; nothing was saved.
        """
        request = request or secrets.token_hex(16)
        text = json.dumps(body or {}, separators=(",", ":"), allow_nan=False)
        with self._database.writing() as connection:
            before = connection.execute("SELECT * FROM events WHERE request = ?", (request,)).fetchone()
            if before is not None:
                if before["task"] != task or before["annotator"] != annotator or before["kind"] != kind:
                    raise DataError("Two decisions have the same name.", "Reload the page.")
                return _event(before)
            self._take(connection, task, annotator, LEASE_S)
            events = _events(connection, task)
            check_decision(fold(events), annotator, kind, base)
            at = time.time()
            number = connection.execute(
                "INSERT INTO events (task, annotator, at, kind, body, version, segmenter, request) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (task, annotator, at, kind, text, __version__, segmenter, request),
            ).lastrowid
            assert number is not None
            event = Event(number, task, annotator, at, kind, json.loads(text), __version__, segmenter)
            _note(connection, task, fold([*events, event]))
        return event

    def find(self, request: str) -> Event | None:
        """The event that a decision became, if it was saved before."""
        rows = self._database.rows("SELECT * FROM events WHERE request = ?", request)
        return _event(rows[0]) if rows else None

    def events(self, task: int | None = None) -> list[Event]:
        """The events of a task, or all."""
        if task is None:
            rows = self._database.rows("SELECT * FROM events ORDER BY number")
        else:
            rows = self._database.rows(_OF_TASK, task)
        return [_event(row) for row in rows]

    def work(self, task: int) -> Work:
        """Where a task stands."""
        return fold(self.events(task))

    def rebuild(self) -> None:
        """Compute again from the events what is kept beside them."""
        with self._database.writing() as connection:
            for row in connection.execute("SELECT id FROM tasks").fetchall():
                _note(connection, row["id"], fold(_events(connection, row["id"])))

    # How much

    def progress(self) -> dict[str, Any]:
        """How many tasks are in which state, and who did how much, and when last (seconds since 1970)."""
        states = dict.fromkeys(STATES, 0)
        states.update(
            (row[0], row[1]) for row in self._database.rows("SELECT state, COUNT(*) FROM tasks GROUP BY state")
        )
        decided = ", ".join(f"'{kind}'" for kind in sorted(DECISIONS))
        rows = self._database.rows(
            f"SELECT annotator, COUNT(DISTINCT CASE WHEN kind IN ({decided}) THEN task END) AS frames, "
            f"SUM(kind = 'object') AS objects, SUM(kind IN ({decided})) AS decisions, "
            "SUM(kind IN ('accept', 'reopen')) AS reviews, MAX(at) AS last "
            "FROM events GROUP BY annotator ORDER BY annotator"
        )
        return {"states": states, "annotators": [dict(row) for row in rows]}

    def doubles(self) -> list[tuple[Task, Task]]:
        """Both passes of each frame of which both are finished."""
        states = ", ".join(f"'{state}'" for state in sorted(FINISHED))
        second = f"SELECT frame FROM tasks WHERE pass = 1 AND state IN ({states})"
        rows = self._database.rows(
            f"SELECT * FROM tasks WHERE state IN ({states}) AND frame IN ({second}) ORDER BY frame, pass"
        )
        tasks = [_task(row) for row in rows]
        return [pair for pair in pairwise(tasks) if pair[0].frame == pair[1].frame]


def _note(connection: sqlite3.Connection, task: int, work: Work) -> None:
    """Keep what is read often beside the events."""
    doubts: list[str] = []
    if work.state == "done":
        query = "SELECT frames.* FROM frames JOIN tasks ON tasks.frame = frames.id WHERE tasks.id = ?"
        frame = _frame(connection.execute(query, (task,)).fetchone())
        doubts = [doubt for each in work_doubts(frame.as_left(work), work) for doubt in each]
    first = work.annotators[0] if work.annotators else ""
    values = (work.revision, work.state, len(work.objects), first, json.dumps(doubts), task)
    fields = "revision = ?, state = ?, objects = ?, annotator = ?, doubts = ?"
    connection.execute(f"UPDATE tasks SET {fields} WHERE id = ?", values)


def _events(connection: sqlite3.Connection, task: int) -> list[Event]:
    return [_event(row) for row in connection.execute(_OF_TASK, (task,))]


def _event(row: sqlite3.Row) -> Event:
    return Event(
        row["number"],
        row["task"],
        row["annotator"],
        row["at"],
        row["kind"],
        json.loads(row["body"]),
        row["version"],
        row["segmenter"],
    )


def _frame(row: sqlite3.Row) -> FrameRecord:
    boxes = tuple((float(a), float(b), float(c), float(d)) for a, b, c, d in json.loads(row["boxes"]))
    size = (row["height"], row["width"])
    return FrameRecord(row["id"], row["name"], row["kind"], boxes, size, row["picture"], row["sound"])


def _task(row: sqlite3.Row) -> Task:
    return Task(
        row["id"],
        row["frame"],
        row["pass"] == 1,
        row["revision"],
        row["state"],
        row["objects"],
        row["annotator"],
        tuple(json.loads(row["doubts"])),
    )
