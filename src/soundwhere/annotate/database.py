"""The SQLite file: its tables, and transactions that are on the disk when they end.

The journal is SQLite's write-ahead log, flushed at every commit.
"""

from __future__ import annotations

import sqlite3
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from soundwhere.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

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


class Database:
    """Connections to one file, one for each thread.

    Args:
        path: The file; made, with its tables, if it is not there.

    Raises:
        DataError: It is not such a file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._local = threading.local()
        try:
            self.connection().executescript(_SCHEMA)
        except sqlite3.DatabaseError as error:
            raise DataError(f"{path} cannot be opened: {error}.", "Give a project made by `benchmark init`.") from error

    def connection(self) -> sqlite3.Connection:
        """This thread's connection."""
        connection: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = sqlite3.connect(self._path, timeout=30, isolation_level=None)
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
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield connection
        except BaseException:
            connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")

    def rows(self, query: str, *values: Any) -> list[sqlite3.Row]:
        """What a query finds."""
        return self.connection().execute(query, values).fetchall()
