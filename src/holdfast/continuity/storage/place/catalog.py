"""The catalog of a place: names, objects, and how far it is; an SQLite file in WAL mode, synced with every transaction.

    entries   name → digest, size, content type, number, time        gone    names that were deleted, by number
    objects   digest → size, check sums of each MiB                   loose   digests that no entry names, since when
    done      position → number, outcome                              facts   number, identity, passing_until, gone_below

One thread writes, one call after the other; the loop reads through a connection of its own. An object is
entered as loose before its bytes are on the shelf, and held after they are durable; see ADR 18.
"""

from __future__ import annotations

import json
import secrets
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from holdfast.continuity.storage.machines.decision import Entry, Outcome, decide
from holdfast.continuity.storage.write import Write

# Outcomes and deletions that are remembered. An outcome is asked for within seconds, and redelivered events are the newest ones.
KEPT = 100_000
TRIMMED_EVERY = 1_000

_TABLES = """
CREATE TABLE IF NOT EXISTS entries (name TEXT PRIMARY KEY, digest TEXT, size INT, content_type TEXT, number INT, modified_us INT)
    WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS entries_by_digest ON entries (digest);
CREATE INDEX IF NOT EXISTS entries_by_number ON entries (number);
CREATE TABLE IF NOT EXISTS gone (name TEXT PRIMARY KEY, number INT) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS gone_by_number ON gone (number);
CREATE TABLE IF NOT EXISTS objects (digest TEXT PRIMARY KEY, size INT, sums BLOB) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS loose (digest TEXT PRIMARY KEY, since_us INT) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS done (position INTEGER PRIMARY KEY, number INT, outcome BLOB);
CREATE INDEX IF NOT EXISTS done_by_number ON done (number);
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
"""
_ENTRY = "digest, size, content_type, number, modified_us"


class Held(NamedTuple):
    """An object on the shelf, with the check sums of each MiB."""

    digest: str
    size: int
    sums: bytes


class Numbered(NamedTuple):
    """An event of the topic, with the number it has. `write` is None for an event that is no write."""

    number: int
    position: int
    time_us: int
    write: Write | None


class Catalog:
    def __init__(self, file: Path) -> None:
        self._file = file
        self._writer = _opened(file)
        self._writer.executescript(_TABLES)
        self._writer.execute("CREATE TEMP TABLE before (name TEXT PRIMARY KEY) WITHOUT ROWID")
        with self._writer:
            self._writer.execute("INSERT OR IGNORE INTO facts VALUES ('identity', ?)", (secrets.token_hex(8),))
        self._reader = _opened(file)
        self.number: int = self.fact("number") or 0
        self.passing_until: int | None = self.fact("passing_until")
        self._trimmed_at = self.number

    def close(self) -> None:
        self._reader.close()
        self._writer.close()

    # --- reading, in the loop -------------------------------------------------------------------------------------------

    def fact(self, name: str) -> Any:
        found = self._reader.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
        return found[0] if found else None

    def find(self, name: str) -> Entry | None:
        return _find(self._reader, name)

    def held(self, digest: str) -> Held | None:
        found = self._reader.execute("SELECT digest, size, sums FROM objects WHERE digest = ?", (digest,)).fetchone()
        return Held(*found) if found else None

    def outcome(self, position: int) -> Outcome | None:
        """What became of the event at a position; None if it is not applied, or long ago."""
        found = self._reader.execute("SELECT outcome FROM done WHERE position = ?", (position,)).fetchone()
        return msgspec.msgpack.decode(found[0], type=Outcome) if found else None

    def page(self, prefix: str, after: str, limit: int) -> list[tuple[str, Entry]]:
        """Entries by name, from the first that begins with `prefix` and comes after `after`."""
        rows = self._reader.execute(
            f"SELECT name, {_ENTRY} FROM entries WHERE name >= ? AND name > ? AND substr(name, 1, ?) = ? ORDER BY name LIMIT ?",
            (prefix, after, len(prefix), prefix, limit),
        )
        return [(name, Entry(*rest)) for name, *rest in rows]

    def counts(self) -> dict[str, int]:
        one = self._reader.execute(
            "SELECT (SELECT count(*) FROM entries), (SELECT count(*) FROM loose), "
            "(SELECT count(DISTINCT digest) FROM entries WHERE digest NOT IN (SELECT digest FROM objects))"
        ).fetchone()
        return {"files": one[0], "loose": one[1], "lacking": one[2]}

    def lacking(self, limit: int) -> list[tuple[str, int]]:
        """Digests and sizes of files whose bytes are not here."""
        return self._reader.execute(
            "SELECT DISTINCT digest, size FROM entries WHERE digest NOT IN (SELECT digest FROM objects) LIMIT ?", (limit,)
        ).fetchall()

    # --- writing, in one thread -----------------------------------------------------------------------------------------

    def intend(self, digests: Iterable[str], now_us: int) -> None:
        """Bytes of these digests come to the shelf. They are loose, from now on, unless an entry names them."""
        with self._writer:
            for digest in digests:
                if not self._is_named(digest):
                    self._writer.execute("INSERT OR REPLACE INTO loose VALUES (?, ?)", (digest, now_us))

    def hold(self, objects: Iterable[Held]) -> None:
        """These objects are durable on the shelf."""
        with self._writer:
            self._writer.executemany("INSERT OR REPLACE INTO objects VALUES (?, ?, ?)", objects)

    def release(self, digest: str) -> None:
        """An object is damaged, or not on the shelf. Whatever is there of it counts for nothing."""
        with self._writer:
            self._writer.execute("DELETE FROM objects WHERE digest = ?", (digest,))

    def release_all(self) -> None:
        """The shelf is another one, or empty."""
        with self._writer:
            self._writer.execute("DELETE FROM objects")
            self._set_fact("filling", 1)

    def apply(self, events: Sequence[Numbered], held: Iterable[Held], now_us: int) -> None:
        """Apply events in their order, with objects that are on the shelf for them; be durable at their last number on return."""
        with self._writer:
            self._writer.executemany("INSERT OR REPLACE INTO objects VALUES (?, ?, ?)", held)
            for each in events:
                self._apply_one(each, now_us)
            self._set_fact("number", events[-1].number)
            if events[-1].number >= self._trimmed_at + TRIMMED_EVERY:
                self._trimmed_at = events[-1].number
                self._trim(events[-1].number - KEPT)
        self.number = events[-1].number

    def _apply_one(self, event: Numbered, now_us: int) -> None:
        outcome = Outcome("passed", event.number)
        if event.write is not None:
            outcome, changes = decide(event.write, lambda name: _find(self._writer, name), event.number, event.time_us)
            for name, entry in changes:
                self._set(name, entry, event.number, now_us)
        self._writer.execute(
            "INSERT OR REPLACE INTO done VALUES (?, ?, ?)", (event.position, event.number, msgspec.msgpack.encode(outcome))
        )

    def _set(self, name: str, entry: Entry | None, number: int, now_us: int) -> None:
        """Let a name stand for something else, or for nothing, and see which digests are loose now."""
        before = _find(self._writer, name)
        if entry is None:
            self._writer.execute("DELETE FROM entries WHERE name = ?", (name,))
            self._writer.execute("INSERT OR REPLACE INTO gone VALUES (?, ?)", (name, number))
        else:
            self._writer.execute(
                "INSERT OR REPLACE INTO entries VALUES (?, ?, ?, ?, ?, ?)", (name, *msgspec.structs.astuple(entry))
            )
            self._writer.execute("DELETE FROM gone WHERE name = ?", (name,))
            self._writer.execute("DELETE FROM loose WHERE digest = ?", (entry.digest,))
        if before is not None and not self._is_named(before.digest):
            self._writer.execute("INSERT OR REPLACE INTO loose VALUES (?, ?)", (before.digest, now_us))

    def _trim(self, below: int) -> None:
        self._writer.execute("DELETE FROM done WHERE number < ?", (below,))
        if self._writer.execute("DELETE FROM gone WHERE number < ?", (below,)).rowcount:
            self._set_fact("gone_below", below)

    def set_fact(self, name: str, value: Any) -> None:
        with self._writer:
            self._set_fact(name, value)

    def passed(self) -> None:
        """The join was reached: from now on events are applied."""
        with self._writer:
            self._writer.execute("DELETE FROM facts WHERE name = 'passing_until'")
        self.passing_until = None

    def loose_since(self, before_us: int, limit: int) -> list[str]:
        """Digests that have been loose since before that time."""
        rows = self._writer.execute("SELECT digest FROM loose WHERE since_us < ? LIMIT ?", (before_us, limit))
        return [digest for (digest,) in rows]

    def forget(self, digest: str) -> None:
        """A loose object is not on the shelf any more."""
        with self._writer:
            self._writer.execute("DELETE FROM loose WHERE digest = ?", (digest,))

    def _is_named(self, digest: str) -> bool:
        return self._writer.execute("SELECT 1 FROM entries WHERE digest = ? LIMIT 1", (digest,)).fetchone() is not None

    def _set_fact(self, name: str, value: Any) -> None:
        self._writer.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, value))

    # --- copies ---------------------------------------------------------------------------------------------------------

    def copied(self, after: int, position: int) -> Iterator[bytes]:
        """What changed after a number, as of one moment, in lines of JSON; with the positions that are done from the event at
        `position` on. Everything, if deletions are not remembered back to that number. In any thread."""
        reader = _opened(self._file)
        try:
            reader.execute("BEGIN")
            facts: dict[str, Any] = dict(reader.execute("SELECT name, value FROM facts"))
            number = facts.get("number") or 0
            whole = after < (facts.get("gone_below") or 0) or after == 0 or after > number
            yield _line(["head", number, whole])
            since = -1 if whole else after
            for row in reader.execute(f"SELECT name, {_ENTRY} FROM entries WHERE number > ?", (since,)):
                yield _line(["entry", *row])
            for row in reader.execute("SELECT name, number FROM gone WHERE number > ?", (since,)):
                yield _line(["gone", *row])
            first = reader.execute("SELECT number FROM done WHERE position = ?", (position,)).fetchone()
            for row in reader.execute("SELECT position, number, outcome FROM done WHERE number >= ?", first or (number + 1,)):
                yield _line(["done", row[0], row[1], row[2].hex()])
            yield _line(["end", first is not None])
        finally:
            reader.close()

    def take_copy(self, lines: Iterable[bytes], passing_until: int, now_us: int) -> None:
        """Take over what another place has copied. ValueError, and nothing is changed, if it is not whole."""
        with self._writer:
            number = self._take_lines(lines, now_us)
            self._set_fact("number", number)
            self._set_fact("passing_until", passing_until)
            self._set_fact("must_copy", 0)
            self._set_fact("filling", 1)
        self.number = number
        self.passing_until = passing_until

    def _take_lines(self, lines: Iterable[bytes], now_us: int) -> int:
        number, is_complete = 0, False
        self._writer.execute("DELETE FROM before")
        for line in lines:
            kind, *rest = json.loads(line)
            if kind == "head":
                number, whole = rest
                if whole:
                    self._writer.execute("INSERT INTO before SELECT name FROM entries")
            elif kind == "entry":
                self._set(rest[0], Entry(*rest[1:]), rest[4], now_us)
                self._writer.execute("DELETE FROM before WHERE name = ?", (rest[0],))
            elif kind == "gone":
                self._set(rest[0], None, rest[1], now_us)
            elif kind == "done":
                self._writer.execute("INSERT OR REPLACE INTO done VALUES (?, ?, ?)", (rest[0], rest[1], bytes.fromhex(rest[2])))
            elif kind == "end":
                is_complete = bool(rest[0])
        if not is_complete:
            raise ValueError("the copy of a place is not whole")
        for (name,) in self._writer.execute("SELECT name FROM before").fetchall():
            self._set(name, None, number, now_us)
        return int(number)


def _opened(file: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(file, check_same_thread=False, timeout=30)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    return connection


def _find(connection: sqlite3.Connection, name: str) -> Entry | None:
    found = connection.execute(f"SELECT {_ENTRY} FROM entries WHERE name = ?", (name,)).fetchone()
    return Entry(*found) if found else None


def _line(value: Any) -> bytes:
    return json.dumps(value).encode() + b"\n"
