"""The observer: reads the data folder of a server or an embedded program without owning it. Nothing is written.

    folder ─▶ newest snapshot ─▶ replay up to the durable mark ─▶ directory ─▶ destinations, extents, slices

The owner of the folder notices nothing: no lock is taken, no byte is written, and nothing is kept for the observer. So it sees
the state of one moment, that of its last `refresh`. Events confirmed after that can still be read until their segments are used
again. Then the observer refreshes, goes on where it was if those events still wait, and raises NoSuchPosition if they do not.

The owner writes its durable mark a moment after its receipts. So the newest receipted events are seen a moment later; if the
owner was killed in between, they are seen when the next owner has opened the folder.
"""

from __future__ import annotations

from collections.abc import Coroutine, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from holdfast.bus.message import BrowseAsked, BrowsedPage
from holdfast.channel.channel import Buffer
from holdfast.channel.journal.reading.journal_reader import CACHE_BYTES, JournalReader
from holdfast.destination.backlog.backlog import Backlog
from holdfast.destination.directory import Directory
from holdfast.destination.state.places import Places
from holdfast.destination.state.subscription import Match, key_of_topic, pattern_of_key
from holdfast.errors import NoSuchPosition, NotAJournal, Refused
from holdfast.event.batch import UnreadBatch
from holdfast.event.extent import EVERYTHING, Bounds, Extent, ReadSlice
from holdfast.node.administration import argument_reader, arguments
from holdfast.node.identity import restored_in
from holdfast.node.node import IDENTITY_FILE, JOURNAL_FOLDER
from holdfast.node.reading.browse_pages import BrowsePages
from holdfast.node.reading.extents import Extents
from holdfast.node.reading.place_pages import BYTES_MAX

Answer = TypeVar("Answer")

EVENTS_A_PAGE = 1 << 16
# The owner may release entries that the observer is about to read, but not that often in a row.
REFRESHES_MAX = 10


def journal_of(folder: Path) -> Path:
    """The journal of a data folder, or the folder itself if it is one; NotAJournal when there is no such folder."""
    if not folder.is_dir():
        raise NotAJournal(f"there is no folder {folder}; name the data folder of a server or program", folder=str(folder))
    inside = folder / JOURNAL_FOLDER
    return inside if inside.is_dir() else folder


class Observer:
    """Use it in `with`, from one thread. Raises NotAJournal, UnknownVersion, JournalDamaged or DiskFailed when it cannot see."""

    def __init__(self, folder: Path | str, *, cache_bytes: int = CACHE_BYTES) -> None:
        self.folder = Path(folder)
        self.directory = Directory()
        self._times_restored = restored_in(self.folder / IDENTITY_FILE)
        self._reader = JournalReader(journal_of(self.folder), cache_bytes=cache_bytes)
        try:
            self._rebuild()
        except BaseException:
            self._reader.close()
            raise

    def close(self) -> None:
        self._reader.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    # --- destinations -------------------------------------------------------------------------------------------------

    def destinations(self) -> list[dict[str, Any]]:
        """Every queue and topic, with what waits in it and what became of the rest."""
        return self.directory.list()

    def describe(self, name: str) -> dict[str, Any]:
        return self.directory.describe(name)

    def subscriptions(self, topic: str, match: Match = "name") -> list[dict[str, Any]]:
        """The subscriptions of a topic, with those of patterns that it fills; or those of one pattern."""
        return self.directory.catalog.subscriptions(key_of_topic(topic, match))

    def backlogs(self) -> list[tuple[str, str, Match]]:
        """Everything that can be read, as `reading` takes it: destination or pattern, subscription, how it is matched."""
        found: list[tuple[str, str, Match]] = []
        for key, subscription in self.directory.catalog.queues:
            pattern = pattern_of_key(key)
            found.append((key, subscription, "name") if pattern is None else (pattern.text, subscription, pattern.kind))
        return found

    def reading(self, destination: str, subscription: str = "", *, match: Match = "name") -> ObservedReading:
        """Read what waits in a subscription of a topic or pattern, or (without one) in a queue. Refused when there is none."""
        return ObservedReading(self, destination, subscription, match)

    # --- refreshing ---------------------------------------------------------------------------------------------------

    def refresh(self) -> int:
        """Read the entries that came since; return the number of the newest one."""
        self._reader.refresh()
        if self.directory.applied + 1 < self._reader.first:
            self._rebuild()
        else:
            self._follow()
        return self.directory.applied

    def _follow(self) -> None:
        """Apply the entries that came since. Their effects are for a deliverer, and are left alone."""
        try:
            for entry in self._reader.read_from(self.directory.applied + 1):
                self.directory.apply(entry.number, entry.command)
        except NoSuchPosition:  # released before it was read
            self._rebuild()

    def _rebuild(self) -> None:
        for _ in range(REFRESHES_MAX):
            directory = self._restored()
            try:
                for entry in self._reader.read_from(directory.applied + 1):
                    directory.apply(entry.number, entry.command)
            except NoSuchPosition:  # a newer snapshot has taken the place of the one that was restored
                self._reader.refresh()
                continue
            self.directory = directory
            return
        raise NoSuchPosition(f"{self.folder} is used again faster than it can be read; read it when less is sent")

    def _restored(self) -> Directory:
        snapshot = self._reader.load_snapshot()
        if snapshot is not None:
            return Directory.restore(snapshot.chunks)
        if self._reader.first > 1:
            raise Refused(
                f"the journal in {self.folder} begins at entry {self._reader.first} and has no snapshot of what came before; "
                "restore a backup"
            )
        return Directory()

    # --- reading ------------------------------------------------------------------------------------------------------

    @property
    def id(self) -> str:
        return self._times_restored.incarnation(self._reader.id)

    async def fetch(self, numbers: Sequence[int], bytes_max: int | None = None, front: int | None = None) -> list[Buffer]:
        """Fetch commands, as an `EntrySource` (`node.reading.place_pages`), without ever waiting."""
        return self._reader.fetch(numbers, bytes_max, front)


class ObservedReading:
    """Reads what waits in one backlog, by place: as `client.reading` does, but without owning it or confirming anything."""

    def __init__(self, observer: Observer, destination: str, subscription: str, match: Match) -> None:
        self.destination = destination
        self.subscription = subscription
        self._observer = observer
        self._key = key_of_topic(destination, match)
        self._asked: dict[str, Any] = {"topic": destination, "subscription": subscription, "match": match}
        self._backlog()

    def extent(
        self, start: int | None = None, events_max: int | None = None, bytes_max: int | None = None, pieces: int = 1
    ) -> Extent:
        """How far what waits goes, from a place (or the oldest that waits) on, within limits, cut into pieces."""
        wanted = {"start": start, "events_max": events_max, "bytes_max": bytes_max, "pieces": pieces}
        asked = argument_reader.convert(arguments.Extent, {**self._asked, **wanted})
        return Extent(**stepped(Extents(self._observer.directory, self._observer).extent(asked)))

    def slices(self, start: int, end: int, selector: str | None = None, within: Bounds = EVERYTHING) -> Iterator[ReadSlice]:
        """The batches that wait between two places, as they lie; with a selector, only those it matches."""
        cursor, is_end = start, start >= end
        while not is_end:
            page = self._page(cursor, end, selector or "", within)
            for each in page.slices:
                destination = each.destination or self.destination
                yield ReadSlice(each.first, each.events, destination, each.accepted_us, UnreadBatch(each.batch))
            cursor, is_end = page.cursor, page.is_end

    def _page(self, cursor: int, end: int, selector: str, within: Bounds) -> BrowsedPage:
        asked = BrowseAsked("", 0, self._key, self.subscription, cursor, EVENTS_A_PAGE, selector, end, BYTES_MAX, within)
        waiting = self._waiting(cursor, end)
        for _ in range(REFRESHES_MAX):
            try:
                return stepped(BrowsePages(self._observer.directory, self._observer).page(asked))
            except NoSuchPosition as released:
                self._observer.refresh()
                if self._waiting(cursor, end) != waiting:
                    raise NoSuchPosition(
                        f"{self.destination}: some of what waited between places {cursor} and {end} was confirmed meanwhile, and "
                        "its space used again; ask for the extent anew, and read that",
                        start=cursor,
                        end=end,
                    ) from released
        raise NoSuchPosition(f"{self._observer.folder} is used again faster than it can be read; read it when less is sent")

    def _waiting(self, start: int, end: int) -> int:
        """How many events wait between two places."""
        places = Places(self._backlog())
        return places.before(end) - places.before(start)

    def _backlog(self) -> Backlog:
        return self._observer.directory.catalog.queue(self._key, self.subscription).backlog


def stepped(coroutine: Coroutine[Any, Any, Answer]) -> Answer:
    """Run a coroutine that never waits, without a loop, and return its result. The turns it gives to others are ignored."""
    while True:
        try:
            coroutine.send(None)
        except StopIteration as done:
            answer: Answer = done.value
            return answer
