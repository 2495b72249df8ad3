"""The observer: what the data folder of a server or an embedded program holds, seen without owning it. Nothing is written.

    folder ─▶ newest snapshot ─▶ replay up to the durable mark ─▶ directory ─▶ destinations, extents, slices

Whoever owns the folder goes on as if nobody looked: no lock is taken, no byte is written, and nothing is kept for the observer.
So it sees the state of one moment, that of its last `refresh`. What is confirmed after that can still be read as long as its
segments are not used again; when they are, the observer looks anew, goes on where it was if that still waits, and says
NoSuchPosition if it does not.

The owner writes its durable mark a moment after its receipts: what was receipted last is seen a moment later, and if the owner
was killed in between, when the next one has opened the folder.
"""

from __future__ import annotations

from collections.abc import Coroutine, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from holdfast.bus.message import BrowseAsked, BrowsedPage
from holdfast.channel.channel import Buffer
from holdfast.channel.journal.reader import CACHE_BYTES, JournalReader
from holdfast.destination.backlog import Backlog
from holdfast.destination.directory import Directory
from holdfast.destination.extent import Places
from holdfast.destination.subscription import Match, key_of_topic, pattern_of_key
from holdfast.errors import NoSuchPosition, NotAJournal, Refused
from holdfast.event.batch import UnreadBatch
from holdfast.event.bounds import EVERYTHING, Bounds
from holdfast.event.extent import Extent, ReadSlice
from holdfast.node.browsing import Browsing
from holdfast.node.extents import Extents
from holdfast.node.node import JOURNAL_FOLDER
from holdfast.node.reading import BYTES_MAX

Answer = TypeVar("Answer")

EVENTS_A_PAGE = 1 << 16
# The owner may release what the observer is about to read, however often it looks; that often in a row it does not.
LOOKS_MAX = 10


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

    # --- what there is ------------------------------------------------------------------------------------------------

    def destinations(self) -> list[dict[str, Any]]:
        """Every queue and topic, with what waits in it and what became of the rest."""
        return self.directory.list()

    def describe(self, name: str) -> dict[str, Any]:
        return self.directory.describe(name)

    def subscriptions(self, topic: str, match: Match = "name") -> list[dict[str, Any]]:
        """Those of a topic, with those of patterns that it fills; or those of one pattern."""
        return self.directory.catalog.subscriptions(key_of_topic(topic, match))

    def backlogs(self) -> list[tuple[str, str, Match]]:
        """Everything that can be read, as `reading` takes it: destination or pattern, subscription, how it is matched."""
        found: list[tuple[str, str, Match]] = []
        for key, subscription in self.directory.catalog.queues:
            pattern = pattern_of_key(key)
            found.append((key, subscription, "name") if pattern is None else (pattern.text, subscription, pattern.kind))
        return found

    def reading(self, destination: str, subscription: str = "", *, match: Match = "name") -> ObservedReading:
        """What waits in a subscription of a topic or pattern, or (without one) in a queue. Refused when there is none."""
        return ObservedReading(self, destination, subscription, match)

    # --- looking again ------------------------------------------------------------------------------------------------

    def refresh(self) -> int:
        """See what came since; the newest entry that is known of."""
        self._reader.refresh()
        if self.directory.applied + 1 < self._reader.first:
            self._rebuild()
        else:
            self._follow()
        return self.directory.applied

    def _follow(self) -> None:
        """Apply what came since. The effects are for whoever delivers, not for whoever looks."""
        try:
            for entry in self._reader.read_from(self.directory.applied + 1):
                self.directory.apply(entry.number, entry.command)
        except NoSuchPosition:  # released before it was read
            self._rebuild()

    def _rebuild(self) -> None:
        for _ in range(LOOKS_MAX):
            directory = self._restored()
            try:
                for entry in self._reader.read_from(directory.applied + 1):
                    directory.apply(entry.number, entry.command)
            except NoSuchPosition:  # a newer snapshot has taken the place of the one that was restored
                self._reader.refresh()
                continue
            self.directory = directory
            return
        raise NoSuchPosition(f"{self.folder} is used again faster than it can be read; look at it when less is sent")

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
        return self._reader.id

    async def fetch(self, numbers: Sequence[int], bytes_max: int | None = None, front: int | None = None) -> list[Buffer]:
        """As from a channel (`node.reading.Fetching`), but that nothing has to be waited for."""
        return self._reader.fetch(numbers, bytes_max, front)


class ObservedReading:
    """What waits in one backlog, by place: the same as `client.reading`, without an owner, and nothing is confirmed."""

    def __init__(self, observer: Observer, destination: str, subscription: str, match: Match) -> None:
        self.destination = destination
        self.subscription = subscription
        self._observer = observer
        self._key = key_of_topic(destination, match)
        self._asked = {"topic": destination, "subscription": subscription, "match": match}
        self._backlog()

    def extent(
        self, start: int | None = None, events_max: int | None = None, bytes_max: int | None = None, pieces: int = 1
    ) -> Extent:
        """How far what waits goes, from a place (or the oldest that waits) on, within limits, cut into pieces."""
        asked = {**self._asked, "start": start, "events_max": events_max, "bytes_max": bytes_max, "pieces": pieces}
        return Extent(**stepped(Extents(self._observer.directory, self._observer).extent(asked)))

    def slices(self, start: int, end: int, selector: str | None = None, within: Bounds = EVERYTHING) -> Iterator[ReadSlice]:
        """The batches that wait between two places, as they lie; of those a selector does not match, none."""
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
        for _ in range(LOOKS_MAX):
            try:
                return stepped(Browsing(self._observer.directory, self._observer).page(asked))
            except NoSuchPosition as released:
                self._observer.refresh()
                if self._waiting(cursor, end) != waiting:
                    raise NoSuchPosition(
                        f"{self.destination}: some of what waited between places {cursor} and {end} was confirmed meanwhile, and "
                        "its space used again; ask for the extent anew, and read that",
                        start=cursor,
                        end=end,
                    ) from released
        raise NoSuchPosition(f"{self._observer.folder} is used again faster than it can be read; look at it when less is sent")

    def _waiting(self, start: int, end: int) -> int:
        """How many events wait between two places."""
        places = Places(self._backlog())
        return places.before(end) - places.before(start)

    def _backlog(self) -> Backlog:
        return self._observer.directory.catalog.queue(self._key, self.subscription).backlog


def stepped(coroutine: Coroutine[Any, Any, Answer]) -> Answer:
    """What a coroutine returns that never has to wait: it gives others their turn, and here there are none. Needs no loop."""
    while True:
        try:
            coroutine.send(None)
        except StopIteration as done:
            answer: Answer = done.value
            return answer
