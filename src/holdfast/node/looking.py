"""What a client manager does for a browser: it checks who may look where, asks for a page, and hands it back as a frame."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from holdfast.bus.message import BrowseAsked, BrowsedPage
from holdfast.errors import HoldfastError, ProtocolError
from holdfast.event.selector import parse_optional
from holdfast.node.permission import check_request
from holdfast.node.reading import BYTES_MAX
from holdfast.session.session import Session
from holdfast.wire import frame
from holdfast.wire.link import Link

if TYPE_CHECKING:
    from holdfast.node.client_manager import ClientManager

COUNT_MAX = 1_000
# With a limit in bytes, for who reads by place.
READ_COUNT_MAX = 1 << 16
# Of up to a MiB each, that are read for one link at the same time.
PAGES_A_LINK = 2
_CURSOR_END = 1 << 62
Reply = Callable[[frame.Message, frame.Buffer], None]


def check_browse(message: frame.Browse) -> None:
    """ProtocolError for what no client of ours asks for."""
    count_max = READ_COUNT_MAX if message.bytes else COUNT_MAX
    if not 1 <= message.count <= count_max or not 0 <= message.cursor < _CURSOR_END:
        raise ProtocolError(f"a browser asks for 1 to {count_max} events from a cursor on that it was given; it did not")
    if not 0 <= message.end < _CURSOR_END or not 0 <= message.bytes <= BYTES_MAX:
        raise ProtocolError(f"a page has at most {BYTES_MAX} bytes, and ends at a place that was given; this was asked otherwise")


def browse(manager: ClientManager, session: Session, message: frame.Browse, reply: Reply) -> None:
    """It is answered when the page is read, or at once when it is refused."""

    def browsed(page: BrowsedPage) -> None:
        slices = [frame.Slice(*each[:4], len(each.batch), *each[5:]) for each in page.slices]  # with its length for its bytes
        body = b"".join(each.batch for each in page.slices)
        reply(frame.Browsed(message.token, slices, page.cursor, page.is_end), body)

    def failed(problem: HoldfastError) -> None:
        reply(frame.Failed.of(message.token, problem), b"")

    try:
        check_request(session, message)
        parse_optional(message.selector)
    except HoldfastError as problem:
        failed(problem)
        return
    where = (message.destination, message.subscription, message.cursor, message.count, message.selector)
    token = manager.next_token(browsed, failed)
    manager.tell_messages(BrowseAsked(manager.subject, token, *where, message.end, message.bytes, message.within))


class PagesInTurn:
    """The large pages that were asked for over one link: few are read at a time, and none while the link is congested. However
    much a client asks for, and however slowly it reads, no more than a few wait here."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._room = asyncio.Semaphore(PAGES_A_LINK)
        self._asked: set[asyncio.Task[None]] = set()

    def ask(self, look: Callable[[Reply], None], reply: Reply) -> None:
        """Look when it is its turn, and reply."""
        task = asyncio.create_task(self._take_turn(look, reply), name="a page to be read")
        self._asked.add(task)
        task.add_done_callback(self._asked.discard)

    async def _take_turn(self, look: Callable[[Reply], None], reply: Reply) -> None:
        async with self._room:
            await self._link.drained()
            is_told = asyncio.Event()

            def tell(told: frame.Message, body: frame.Buffer) -> None:
                try:
                    reply(told, body)
                finally:
                    is_told.set()

            look(tell)
            await is_told.wait()

    def stop(self) -> None:
        """The link is lost: nobody waits."""
        for task in self._asked:
            task.cancel()
