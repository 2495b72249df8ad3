"""SQLite in process: WAL, `synchronous=FULL`, so that a commit is on disk when it returns."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

COMMIT_EVERY = 1_000


class SqliteClient:
    def __init__(self, path: Path) -> None:
        self._database = sqlite3.connect(path, isolation_level=None)
        self._database.execute("PRAGMA journal_mode=WAL")
        self._database.execute("PRAGMA synchronous=FULL")
        self._database.execute("CREATE TABLE IF NOT EXISTS event (id INTEGER PRIMARY KEY, body BLOB)")

    def send_one_by_one(self, bodies: Iterable[bytes]) -> None:
        for body in bodies:
            self._database.execute("INSERT INTO event (body) VALUES (?)", (body,))

    def send_pipelined(self, body: bytes, count: int) -> None:
        for start in range(0, count, COMMIT_EVERY):
            rows = [(body,)] * min(COMMIT_EVERY, count - start)
            with self._database:
                self._database.execute("BEGIN")
                self._database.executemany("INSERT INTO event (body) VALUES (?)", rows)

    def send_in_transactions(self, body: bytes, events: int, count: int) -> None:
        for _ in range(count):
            self._database.execute("BEGIN")
            for _ in range(events):
                self._database.execute("INSERT INTO event (body) VALUES (?)", (body,))
            self._database.execute("COMMIT")

    def receive_and_confirm(self, count: int, seen: Callable[[bytes], object]) -> None:
        received = 0
        while received < count:
            rows = self._database.execute(
                "SELECT id, body FROM event ORDER BY id LIMIT ?", (min(COMMIT_EVERY, count - received),)
            ).fetchall()
            if not rows:
                raise RuntimeError(f"{count} events were to be received, and {received} were there")
            for _, body in rows:
                seen(body)
            self._database.execute("DELETE FROM event WHERE id <= ?", (rows[-1][0],))
            received += len(rows)

    def close(self) -> None:
        self._database.close()


class Sqlite:
    name = "SQLite WAL"
    one_by_one_count = 400
    pipelined_count = 200_000
    is_broker = False

    def start(self, folder: Path) -> None:
        self._path = folder / "events.sqlite"

    @property
    def connect(self) -> Callable[[], SqliteClient]:
        return partial(SqliteClient, self._path)

    def stop(self) -> None:
        """Nothing runs."""
