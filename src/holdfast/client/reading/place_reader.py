"""Reading by place: for a recipient that plans batches, reads them any number of times, and confirms up to where it is done.

    reading = client.reading("alerts.*", "lake", match="glob")
    async with reading.owner():
        extent = await reading.extent(events_max=100_000)
        async for slice in reading.slices(extent.start, extent.end):
            ...                                             # whole batches, as they lie
        await reading.confirm_up_to(extent.end)             # everything before it is finished; may be said again

A **place** is where an event stands in a subscription, in one number. Places count up for ever and never move: what is placed
later has a later place, whatever is finished before it. So two places name the same events until these are confirmed, for every
reader, however often. An event that expires, or is given up, is simply no longer there.

**Nothing is handed out**: there is no credit, no redelivery, nothing to decide on for each event. Delays and priorities are those
of events that are delivered; here everything is read in the order in which it was placed. An event larger than memory
(`send_stream`) has its head in its slice, and an empty body: `reading.open_stream(slice)` reads its data piece by piece, for as
long as the event is not confirmed.

**One owner.** The program that confirms owns the subscription: it is created if it does not exist, and nobody else receives from
it meanwhile. The ownership ends at once when the program ends or its link is lost; the next call takes it again. Reading and
asking for extents need no owner.

A subscription that is deleted and made again, is another server's, or is that of a server which was restored from a backup, has
another `identity`: keep it with your places.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypedDict

from holdfast.client import checks
from holdfast.client.reading.lane import lane_of
from holdfast.client.reading.page_fetcher import PageFetcher
from holdfast.client.reading.subscription_ownership import Ownership
from holdfast.client.receiving.large_event import EventStream
from holdfast.client.receiving.receive_options import Match, condition, place_of
from holdfast.errors import BadSetting, Closed
from holdfast.event.event import decode_head
from holdfast.event.extent import EVERYTHING, Bounds, Extent, ReadSlice
from holdfast.wire.frame import Manage

if TYPE_CHECKING:
    from holdfast.client.connection.session import Session

__all__ = ["Extent", "ReadSlice", "Reading", "ReadingOptions"]

# How long the server is asked to wait for more: less than it is willing to.
WAIT_MS_MAX = 5_000
PLACE_MAX = (1 << 62) - 1


class ReadingOptions(TypedDict, total=False):
    """The options of `client.reading`.

    match      how the destination is meant: "name", "glob" or "regex"; without it, a name with wildcards is a glob
    selector   the selector of a subscription that its owner creates; one that is there must have the same
    timeout    seconds to wait for each answer
    channel    of one message manager, where there are several: a pattern is read in each of them by itself
    """

    match: Match | None
    selector: str | None
    timeout: float | None
    channel: str


class Reading:
    """Reads what waits in a subscription, by place. Made by `client.reading(…)`; making one asks nobody and creates nothing."""

    def __init__(
        self,
        opened: Callable[[], Session],
        destination: str,
        subscription: str = "",
        match: Match | None = None,
        selector: str | None = None,
        timeout: float | None = None,
        channel: str = "",
    ) -> None:
        self.destination, self.match = place_of(destination, match, subscription)
        self.subscription = subscription
        self._opened = opened
        self._channel = channel
        self._found: Session | None = None  # in the channel of the destination
        self._timeout = timeout
        self._where: dict[str, Any] = {"topic": self.destination, "subscription": subscription, "match": self.match}
        self._selector = None if selector is None else condition(selector)
        self._ownership: Ownership | None = None

    def __repr__(self) -> str:
        return f"Reading({self.destination!r}, {self.subscription!r}, match={self.match!r})"

    @property
    def key(self) -> str:
        """The key of the destination, under which its backlogs are named."""
        return self.destination if self.match == "name" else f"{self.match}:{self.destination}"

    @property
    def incarnation(self) -> str:
        """The incarnation of the server's channel: places of another one name other events. "" if the server does not tell."""
        return (self._found or self._opened()).incarnation

    @property
    def channel(self) -> str:
        """The channel in which it reads, once it has asked or owned; "" where there is one alone."""
        return (self._found or self._opened()).channel if self._opened().lanes is not None else ""

    def owner(self) -> Ownership:
        """Own the subscription inside `async with reading.owner(): …`. It is created if it does not exist.

        SubscriptionInUse when a program that lives owns it, or receives from it. WrongKind for a queue: others take from it.
        """
        if self._ownership is not None and self._ownership.is_open:
            raise Closed(f"{self!r} owns its subscription already; leave `async with reading.owner()` first")
        self._ownership = Ownership(
            partial(self._lane, is_used=True),
            self._opened(),
            self.destination,
            self.subscription,
            self.match,
            self._selector,
            self._timeout,
        )
        return self._ownership

    async def extent(
        self, start: int | None = None, events_max: int | None = None, bytes_max: int | None = None, pieces: int = 1
    ) -> Extent:
        """How far a batch goes from a place on (None: from the oldest event that waits). It has at most so many events and bytes,
        and at least one event if any waits. Places cut it into `pieces`.

        Events are counted exactly. Bytes are exact up to some hundred batches, and estimated from samples beyond.
        AlreadyConfirmed when an owner confirmed everything before a later place than `start`: the caller has lost a newer
        state. A `confirmed` past `start` says nothing by itself: the events between may have expired.
        """
        wanted = {"start": start, "events_max": events_max, "bytes_max": bytes_max, "pieces": pieces}
        found = await self._ask("extent", self._allowed(None), **wanted)
        return Extent(**{name: found[name] for name in Extent._fields})

    async def confirm_up_to(self, place: int, *, timeout: float | None = None) -> int:
        """Confirm everything before this place; how many events still waited there. Returns when that is durable and applied.

        It may be repeated, also after a lost link: only events that still wait are confirmed. Only for the owner (`owner`).
        """
        if self._ownership is None or not self._ownership.is_open:
            raise Closed("only the owner of a subscription confirms up to a place; do it inside `async with reading.owner()`")
        arguments = {**self._where, "place": _checked(place, "place")}
        answer = await self._ownership.ask("confirm_up_to", arguments, self._allowed(timeout))
        return int(answer["events"])

    async def more(self, after: int, timeout: float) -> bool:
        """Wait until something waits at or after a place, for so many seconds at most; whether something does.

        The server tells as soon as something is placed; nobody polls. With 0, only what is there already.
        """
        if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not timeout >= 0:
            raise BadSetting(f"a timeout of {timeout!r} is no time to wait; give seconds, 0 not to wait", setting="timeout")
        connection = self._opened().connection
        deadline = connection.deadline(timeout)
        _checked(after, "after")
        while True:
            wait_ms = min(WAIT_MS_MAX, max(0, round(1000 * (deadline - connection.loop.time()))))
            if await self._ask("more", self._allowed(None) + wait_ms / 1000, after=after, wait_ms=wait_ms):
                return True
            if connection.loop.time() >= deadline:
                return False

    def slices(self, start: int, end: int, selector: str | None = None, within: Bounds = EVERYTHING) -> AsyncIterator[ReadSlice]:
        """Read what waits between two places, in whole batches or parts: `async for slice in reading.slices(start, end): …`.

        With a `selector`, only what matches, and of that only what lies `within` a range of positions and of times of acceptance
        (`holdfast.event.extent`), both chosen by the server. It is read ahead a little. Nothing is taken: it may be read by
        anyone, any number of times, until it is confirmed.
        """
        places = (_checked(start, "start"), _checked(end, "end"))
        asked = (*places, condition(selector), self._allowed(None), within)
        return PageFetcher(self._lane, self.key, self.subscription, *asked).slices()

    def open_stream(self, slice: ReadSlice, index: int = 0) -> EventStream:
        """Read the data of an event of a slice piece by piece, large or not.

            async with reading.open_stream(slice) as stream: …

        It needs no owner. NoSuchPosition while it is read when the event was confirmed meanwhile, or has expired.
        """
        if type(index) is not int or not 0 <= index < slice.events:
            raise BadSetting(f"index {index!r:.40} is not in the slice; give 0 to {slice.events - 1}", setting="index")
        large = decode_head(slice.batch.head(index)).large
        body = slice.batch.body(index) if large is None else b""
        return EventStream(self._found or self._opened(), 0, slice.first + index, large, body, (self.key, self.subscription))

    # --- asking ------------------------------------------------------------------------------------------------------

    async def _lane(self, is_used: bool = False) -> Session:
        """The session in the channel of the destination."""
        self._found = await lane_of(self._opened(), self.destination, self.match, self._channel, is_used)
        return self._found

    def _allowed(self, timeout: float | None) -> float:
        return checks.seconds(timeout if timeout is not None else self._timeout, self._opened().connection.timeout)

    async def _ask(self, action: str, timeout: float, **arguments: Any) -> Any:
        """Ask, again after a lost link: reading changes nothing."""
        lane = await self._lane()
        return await lane.ask_again(lambda token: Manage(token, action, {**self._where, **arguments}), timeout)


def _checked(place: int, name: str) -> int:
    if type(place) is not int or not 0 <= place <= PLACE_MAX:
        raise BadSetting(f"{name} {place!r:.40} is not a place; give one that an extent named", setting=name)
    return place
