"""A browser: looks at what waits in a queue or a subscription, without taking anything.

    async with orders.browse(selector="amount > 100") as events:
        async for event in events:
            print(event.data)

Events come in the order in which they were placed, whatever their priority, with those in flight and those that are delayed. An
event that is finished before the browser comes to it is not shown; an event that is placed meanwhile is. The browser ends where
nothing more waits. Looking changes nothing: the event is delivered as if nobody had looked, and has no `confirm`.
"""

from __future__ import annotations

from collections import deque
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, Self, TypedDict

from holdfast.client import checks
from holdfast.client.receiving.receive_options import condition
from holdfast.client.receiving.received_event import Received, ReceivedSlice
from holdfast.destination.name import is_everywhere
from holdfast.errors import BadSetting, Closed
from holdfast.event.batch import Batch
from holdfast.wire.frame import Browse, Browsed, Buffer

if TYPE_CHECKING:
    from holdfast.client.connection.lanes import Lanes
    from holdfast.client.connection.session import Session

PAGE_EVENTS = 200
PAGE_EVENTS_MAX = 1_000


class BrowseOptions(TypedDict, total=False):
    """The options of `browse`.

    selector   show only events that match; it sees properties and attributes, not data
    page       how many events are asked for at a time
    timeout    seconds to wait for each page
    """

    selector: str | None
    page: int
    timeout: float | None


class BrowsedEvent(Received, eq=False):
    """An event as a browser shows it: everything can be read, nothing decided."""


class BrowseOrigin(NamedTuple):
    """Where a browsed event came from: as much of a receiver as its event needs."""

    session: Session
    destination: str


class Browser:
    """Made by `queue.browse()` and `topic.browse(name)`, used inside `async with`."""

    def __init__(
        self,
        session: Session,
        destination: str,
        subscription: str = "",
        selector: str | None = None,
        page: int = PAGE_EVENTS,
        timeout: float | None = None,
        cursor: int | None = None,
    ) -> None:
        """`cursor`: where to begin, in the channel of this session. The rest: `BrowseOptions`."""
        if type(page) is not int or not 1 <= page <= PAGE_EVENTS_MAX:
            raise BadSetting(f"a page of {page!r} events is not possible; give 1 to {PAGE_EVENTS_MAX}", setting="page")
        self.destination = destination
        self.subscription = subscription
        self._session = session
        self._lanes: list[Session] = []  # in which it goes on when this one is at its end
        self._origin = BrowseOrigin(session, destination)
        self._selector = condition(selector)
        self._page = page
        self._timeout = checks.seconds(timeout, session.connection.timeout)
        self._cursor = cursor or 0
        self._is_located = cursor is not None
        self._is_end = False
        self._is_open = False
        self._waiting: deque[BrowsedEvent] = deque()

    async def __aenter__(self) -> Self:
        self._session.check_open()
        if self._session.lanes is not None and not self._is_located:
            await self._locate(self._session.lanes)
        await self._ask()
        self._is_open = True
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._is_open = False
        self._waiting.clear()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> BrowsedEvent:
        found = await self.next()
        if found is None:
            raise StopAsyncIteration
        return found

    def take(self) -> BrowsedEvent | None:
        """The next event, if it is here already."""
        return self._waiting.popleft() if self._waiting and self._is_open else None

    async def next(self) -> BrowsedEvent | None:
        """The next event; None at the end."""
        if not self._is_open:
            raise Closed(
                "the browser is not open; use it inside `async with queue.browse() as events` (`with`, in holdfast.blocking)"
            )
        while not self._waiting and not self._is_end:
            await self._ask()
        return self.take()

    async def _ask(self) -> None:
        """Fetch the next page. After a lost link it is asked for again: looking changes nothing."""
        self._take(*await self._origin.session.ask_again(self._question, self._timeout))
        if self._is_end and self._lanes:
            self._begin(self._lanes.pop(0))

    async def _locate(self, lanes: Lanes) -> None:
        """Look in the channel of the destination, or in one channel after the other."""
        first, *self._lanes = (
            lanes.everywhere() if is_everywhere(self.destination) else [await lanes.at(self.destination, is_used=False)]
        )
        self._begin(first)

    def _begin(self, lane: Session) -> None:
        self._origin = BrowseOrigin(lane, self.destination)
        self._cursor, self._is_end = 0, False

    def _question(self, token: int) -> Browse:
        return Browse(token, self.destination, self.subscription, self._cursor, self._page, self._selector)

    def _take(self, message: Browsed, body: Buffer) -> None:
        view, at = memoryview(body), 0
        for each in message.slices:
            batch = Batch(view[at : at + each.length])
            batch.check()
            at += each.length
            said = (each.destination, each.deaths, each.accepted_us)
            received = ReceivedSlice(self._origin, batch, each.first, each.events, each.deliveries, each.length, 0, *said)
            self._waiting.extend(BrowsedEvent(received, index) for index in range(each.events))
        self._cursor, self._is_end = message.cursor, message.is_end
