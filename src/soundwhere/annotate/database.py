"""The SQLite file: its tables, and transactions that are on the disk when they end.

The journal is SQLite's write-ahead log, flushed at every commit.
"""

from __future__ import annotations

import sqlite3
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from soundwhere.errors import DataError, OutputError, SoundwhereError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_PATIENCE_S: Final = 30.0  # for another writer to finish

_DAMAGED: Final = (
    DataError,
    "it is damaged or not a database",
    "Give a project made by `benchmark init`, or a backup of this one.",
)
_CLOSED: Final = (OutputError, "it cannot be opened", "Check the path, and whether you may write to its folder.")
_PROBLEMS: Final[dict[int, tuple[type[SoundwhereError], str, str]]] = {
    sqlite3.SQLITE_FULL: (OutputError, "the disk is full", "Free some space, then try again."),
    sqlite3.SQLITE_IOERR: (OutputError, "the disk cannot be read or written", "Check the disk and its quota."),
    sqlite3.SQLITE_BUSY: (OutputError, "another program is writing to it", "Wait for that program, or end it."),
    sqlite3.SQLITE_READONLY: (OutputError, "you may not write to it", "Ask its owner for permission."),
    sqlite3.SQLITE_CANTOPEN: _CLOSED,
    sqlite3.SQLITE_PERM: _CLOSED,
    sqlite3.SQLITE_CORRUPT: _DAMAGED,
    sqlite3.SQLITE_NOTADB: _DAMAGED,
}
"""By SQLite's primary code: what a user can act on. Anything else is a defect of this package."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS frames (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, kind TEXT NOT NULL, boxes TEXT NOT NULL,
    height INTEGER NOT NULL, width INTEGER NOT NULL, picture TEXT NOT NULL, sound TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS tasks (
    id INTEGER PRIMARY KEY, frame INTEGER NOT NULL REFERENCES frames(id), pass INTEGER NOT NULL,
    revision INTEGER NOT NULL DEFAULT 0, state TEXT NOT NULL DEFAULT 'todo', objects INTEGER NOT NULL DEFAULT 0,
    annotator TEXT NOT NULL DEFAULT '', UNIQUE (frame, pass));
CREATE TABLE IF NOT EXISTS events (
    number INTEGER PRIMARY KEY AUTOINCREMENT, task INTEGER NOT NULL REFERENCES tasks(id), annotator TEXT NOT NULL,
    at REAL NOT NULL, kind TEXT NOT NULL, body TEXT NOT NULL, version TEXT NOT NULL, segmenter TEXT NOT NULL,
    request TEXT NOT NULL UNIQUE);
CREATE INDEX IF NOT EXISTS events_of_task ON events (task, number);
CREATE TRIGGER IF NOT EXISTS events_stay BEFORE UPDATE ON events BEGIN SELECT RAISE(ABORT, 'events never change'); END;
CREATE TRIGGER IF NOT EXISTS events_last BEFORE DELETE ON events BEGIN SELECT RAISE(ABORT, 'events never go'); END;
CREATE TABLE IF NOT EXISTS leases (task INTEGER PRIMARY KEY, annotator TEXT NOT NULL, until REAL NOT NULL);
CREATE TABLE IF NOT EXISTS annotators (name TEXT PRIMARY KEY, token TEXT NOT NULL);
"""

_LATER: Final = (
    ("tasks", "doubts", "TEXT NOT NULL DEFAULT '[]'"),
    ("annotators", "role", "TEXT NOT NULL DEFAULT 'reviewer'"),  # what whoever had a token could do before roles
)
"""Columns that files of earlier versions lack."""


class Database:
    """Connections to one file, one for each thread.

    Args:
        path: The file; made, with its tables, if it is not there.

    Every method turns what SQLite says about the file or its disk into an error a user can act on.

    Raises:
        DataError: It is damaged, or not such a file.
        OutputError: It cannot be read or written: no space, no permission, another program that is writing.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._local = threading.local()
        with self._explained():
            self.connection().executescript(_SCHEMA)
        if any(self._lacks(table, column) for table, column, _ in _LATER):
            with self.writing() as connection:
                for table, column, kind in _LATER:
                    if self._lacks(table, column):  # still: another process may have been faster
                        connection.execute(f"ALTER TABLE {table} ADD COLUMN {column} {kind}")

    def _lacks(self, table: str, column: str) -> bool:
        return column not in {row["name"] for row in self.rows(f"PRAGMA table_info({table})")}

    def connection(self) -> sqlite3.Connection:
        """This thread's connection."""
        connection: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            with self._explained():
                connection = sqlite3.connect(self._path, timeout=_PATIENCE_S, isolation_level=None)
                connection.row_factory = sqlite3.Row
                connection.execute("PRAGMA journal_mode = WAL")
                connection.execute("PRAGMA synchronous = FULL")  # confirmed means on the disk, also after a power cut
                connection.execute("PRAGMA foreign_keys = ON")
            self._local.connection = connection
        return connection

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction, the only one that writes from its start on; an error inside leaves everything as it was."""
        connection = self.connection()
        with self._explained(" Nothing was saved."):
            try:
                connection.execute("BEGIN IMMEDIATE")
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:  # else SQLite itself took back what a full disk interrupted
                    connection.execute("ROLLBACK")
                raise

    def rows(self, query: str, *values: Any) -> list[sqlite3.Row]:
        """What a query finds."""
        with self._explained():
            return self.connection().execute(query, values).fetchall()

    @contextmanager
    def _explained(self, then: str = "") -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", -1) & 0xFF  # the primary code; what follows it is detail
            if code not in _PROBLEMS:
                raise
            kind, problem, remedy = _PROBLEMS[code]
            raise kind(f"{self._path} cannot be used: {problem}.{then}", remedy) from error
