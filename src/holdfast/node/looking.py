"""What a client manager does for a browser: it checks who may look where, asks for a page, and hands it back as a frame."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from holdfast.bus.message import BrowseAsked, BrowsedPage
from holdfast.errors import HoldfastError, ProtocolError
from holdfast.event.selector import parse_optional
from holdfast.node.permission import check_request
from holdfast.session.session import Session
from holdfast.wire import frame

if TYPE_CHECKING:
    from holdfast.node.client_manager import ClientManager

COUNT_MAX = 1_000
_CURSOR_END = 1 << 62
Reply = Callable[[frame.Message, frame.Buffer], None]


def browse(manager: ClientManager, session: Session, message: frame.Browse, reply: Reply) -> None:
    """HoldfastError when it is refused at once; otherwise it is answered when the page is read."""
    if not 1 <= message.count <= COUNT_MAX or not 0 <= message.cursor < _CURSOR_END:
        raise ProtocolError(f"a browser asks for 1 to {COUNT_MAX} events from a cursor on that it was given; it did not")
    check_request(session, message)
    parse_optional(message.selector)

    def browsed(page: BrowsedPage) -> None:
        slices = [
            frame.Slice(
                each.first, each.events, each.deliveries, each.is_adjoining, len(each.batch), each.destination, each.deaths
            )
            for each in page.slices
        ]
        body = b"".join(each.batch for each in page.slices)
        reply(frame.Browsed(message.token, slices, page.cursor, page.is_end), body)

    def failed(problem: HoldfastError) -> None:
        reply(frame.Failed.of(message.token, problem), b"")

    token = manager.next_token(browsed, failed)
    where = (message.destination, message.subscription, message.cursor, message.count, message.selector)
    manager.tell_messages(BrowseAsked(manager.subject, token, *where))
