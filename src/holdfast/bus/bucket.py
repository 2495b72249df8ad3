"""A bucket: keys and values that the nodes of a cluster share, each change made by compare and set.

    node 1 ── put("places.orders", m1, after=0) ──▶  revision 7     the key was not there
    node 2 ── put("places.orders", m2, after=0) ──▶  None           another was first: read it, and decide anew
    all nodes that watch ◀── Entry("places.orders", m1, 7)

A revision is a number that rises with each change of the bucket. Keys are any text. A bucket holds what is small and changes
seldom. Events and the state of destinations are in channels.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol


class Entry(NamedTuple):
    """A key and its newest value. An operator who deletes a key by hand leaves an empty value."""

    key: str
    value: bytes
    revision: int


OnEntry = Callable[[Entry], None]
Stop = Callable[[], None]


class Bucket(Protocol):
    async def get(self, key: str) -> Entry | None:
        """The newest entry that a majority has; Unavailable when it cannot be asked."""

    async def put(self, key: str, value: bytes, after: int = 0) -> int | None:
        """Set a key whose revision is `after`; 0: which is not there. The new revision, or None if another has changed the key
        since. Unavailable: nothing happened. OutcomeUnknown: it may have happened, or still may; read it again."""

    async def watch(self, on_entry: OnEntry) -> Stop:
        """Call `on_entry` with all entries, then return; from then on with those that change, in the order of revisions.

        What changes twice at once may be told once, with its newest value. After a time without a connection everything that
        changed meanwhile is told. The returned function ends it. Unavailable when the entries cannot be read now."""


class MemoryBucket:
    """A bucket within one process, for tests and simulated nodes."""

    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {}
        self._revision = 0
        self._watchers: list[OnEntry] = []

    async def get(self, key: str) -> Entry | None:
        return self.entries.get(key)

    async def put(self, key: str, value: bytes, after: int = 0) -> int | None:
        known = self.entries.get(key)
        if (known.revision if known is not None else 0) != after:
            return None
        self._revision += 1
        entry = self.entries[key] = Entry(key, value, self._revision)
        for on_entry in tuple(self._watchers):
            on_entry(entry)
        return entry.revision

    async def watch(self, on_entry: OnEntry) -> Stop:
        for entry in sorted(self.entries.values(), key=lambda each: each.revision):
            on_entry(entry)
        self._watchers.append(on_entry)
        return lambda: self._watchers.remove(on_entry)
