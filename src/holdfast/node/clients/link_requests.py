"""Requests over a link: frames with a token, each answered exactly once.

    Browse                 ──▶ a page: of the large ones few at a time, and none while the link is congested
    ReadFragment           ──▶ a fragment of a large event: one after the other, the next when the link has taken the one before
    Attach, Settle, …      ──▶ `requests`

However much a client asks for, and however slowly it reads, no more than a few pages and fragments wait here, and small events go
between them. An answer goes only to the session that asked, and only while this link carries it: a session that goes on over
another link asks anew.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from holdfast.bus.message import BrowseAsked, BrowsedPage
from holdfast.errors import Closed, HoldfastError, ProtocolError, TooLarge
from holdfast.event.selector.selector import parse_optional
from holdfast.node import supervision
from holdfast.node.clients.requests import Request, check_channel
from holdfast.node.login import permission
from holdfast.node.message_manager_view import MessageManagerView
from holdfast.node.reading.place_pages import BYTES_MAX
from holdfast.session.session import Session
from holdfast.wire import frame
from holdfast.wire.frame import Frame
from holdfast.wire.link import Link

if TYPE_CHECKING:
    from holdfast.node.clients.client_link import ClientLink
    from holdfast.node.clients.client_manager import ClientManager

COUNT_MAX = 1_000
# With a limit in bytes, for readers by place.
READ_COUNT_MAX = 1 << 16
# Large pages, of up to a MiB each, that are read for one link at the same time.
PAGES_A_LINK = 2
_CURSOR_END = 1 << 62
# The characters of a selector that is parsed at once, in a millisecond or so.
PARSED_AT_ONCE = 256
# Frames of one session that wait together: the windows of its batches and parts, and its questions.
HELD_MAX = 2_048
Reply = Callable[[frame.Message, frame.Buffer], None]


class LinkRequests:
    def __init__(self, client_link: ClientLink, link: Link, manager: ClientManager) -> None:
        self._client_link = client_link
        self._manager = manager
        self._fragments = FragmentReader(manager, link)
        self._pages = PagesInTurn(link)

    def browse(self, number: int, session: Session, message: frame.Browse) -> None:
        session.asked()
        check_browse(message)
        show, reply = partial(browse, self._manager, session, message), self._reply(number, session)
        self._pages.ask(show, reply) if message.bytes else show(reply)

    def read_fragment(self, number: int, session: Session, message: frame.ReadFragment) -> None:
        session.asked()
        check_channel(session, message.channel)
        self._fragments.ask(session, message, self._reply(number, session))

    def _reply(self, number: int, session: Session) -> Reply:
        link = self._client_link

        def reply(told: frame.Message, body: frame.Buffer) -> None:
            if link.carries(number, session):
                session.answered()
                link.say(number, told, body)

        return reply

    def request(self, number: int, session: Session, message: Any) -> None:
        session.asked()
        link = self._client_link

        def reply(told: Any) -> None:
            if link.carries(number, session):
                session.answered()
                if type(told) is frame.Answered:
                    link.note_attached(session.id, message)
                try:
                    link.say(number, told)
                except TooLarge as problem:
                    link.say(number, link.failed(told.token, problem))

        request = Request(
            self._manager,
            session,
            lambda value: reply(frame.Answered(message.token, value)),
            lambda problem: reply(link.failed(message.token, problem)),
        )
        request.begin(message)

    def stop(self) -> None:
        """The link is lost: nobody waits."""
        self._fragments.stop()
        self._pages.stop()


# --- pages ---------------------------------------------------------------------------------------------------------------


def check_browse(message: frame.Browse) -> None:
    """ProtocolError for a page that no client of ours asks for."""
    count_max = READ_COUNT_MAX if message.bytes else COUNT_MAX
    if not 1 <= message.count <= count_max or not 0 <= message.cursor < _CURSOR_END:
        raise ProtocolError(f"a browser asks for 1 to {count_max} events from a cursor on that it was given; it did not")
    if not 0 <= message.end < _CURSOR_END or not 0 <= message.bytes <= BYTES_MAX:
        raise ProtocolError(f"a page has at most {BYTES_MAX} bytes, and ends at a place that was given; this was asked otherwise")


def browse(manager: ClientManager, session: Session, message: frame.Browse, reply: Reply) -> None:
    """Ask the message manager for a page. It is answered when the page is read, or at once when it is refused."""

    def browsed(page: BrowsedPage) -> None:
        slices = [frame.Slice(*each[:4], len(each.batch), *each[5:]) for each in page.slices]  # with its length for its bytes
        body = b"".join(each.batch for each in page.slices)
        reply(frame.Browsed(message.token, slices, page.cursor, page.is_end), body)

    def failed(problem: HoldfastError) -> None:
        manager.figures.refused(problem.code)
        reply(frame.Failed.of(message.token, problem), b"")

    try:
        permission.check_browse(session, message)
        parse_optional(message.selector)
    except HoldfastError as problem:
        failed(problem)
        return
    where = (message.destination, message.subscription, message.cursor, message.count, message.selector)
    target = manager.managers[session.channel]
    token = target.next_token(browsed, failed)
    what = (message.end, message.bytes, message.within, target.channel.durable)
    target.ask_for(token, BrowseAsked(target.subject, token, *where, *what))


class PagesInTurn:
    """The large pages that were asked for over one link."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._room = asyncio.Semaphore(PAGES_A_LINK)
        self._asked: set[asyncio.Task[None]] = set()

    def ask(self, show: Callable[[Reply], None], reply: Reply) -> None:
        """Show a page when it is its turn, and reply."""
        task = supervision.start(self._take_turn(show, reply), "a page to be read")
        self._asked.add(task)
        task.add_done_callback(self._asked.discard)

    async def _take_turn(self, show: Callable[[Reply], None], reply: Reply) -> None:
        async with self._room:
            await self._link.drained()
            is_told = asyncio.Event()

            def tell(told: frame.Message, body: frame.Buffer) -> None:
                try:
                    reply(told, body)
                finally:
                    is_told.set()

            show(tell)
            await is_told.wait()

    def stop(self) -> None:
        for task in self._asked:
            task.cancel()


# --- fragments -----------------------------------------------------------------------------------------------------------


class FragmentReader:
    """Reads fragments of large events for one link."""

    def __init__(self, manager: ClientManager, link: Link) -> None:
        self._manager = manager
        self._link = link
        self._waiting: deque[tuple[Session, frame.ReadFragment, Reply]] = deque()
        self._reading: asyncio.Task[None] | None = None

    def ask(self, session: Session, message: frame.ReadFragment, reply: Reply) -> None:
        self._waiting.append((session, message, reply))
        if self._reading is None or self._reading.done():
            self._reading = supervision.start(self._read_all(), f"reading fragments for {self._link.peer}")

    async def _read_all(self) -> None:
        while self._waiting:
            await self._link.drained()
            session, message, reply = self._waiting.popleft()
            try:
                found = await _fragment(self._manager.managers[session.channel].messages, session, message)
            except Closed:
                return
            except Exception as problem:  # it costs this fragment, whatever it is
                refusal = supervision.as_refusal(problem)
                self._manager.figures.refused(refusal.code)
                reply(frame.Failed.of(message.token, refusal), b"")
            else:
                reply(frame.Fragment(message.token), found)

    def stop(self) -> None:
        self._waiting.clear()
        if self._reading is not None:
            self._reading.cancel()


async def _fragment(messages: MessageManagerView, session: Session, message: frame.ReadFragment) -> frame.Buffer:
    if message.receiver:
        return await messages.read_fragment(session.id, message.receiver, message.position, message.index)
    permission.check_read_fragment(session, message)
    return await messages.read_fragment_in(message.destination, message.subscription, message.position, message.index)


class HeldFrames:
    """Frames of one link that wait until a destination is known here, or created. What their sessions said since waits, too, in
    its order."""

    def __init__(self, link: ClientLink, manager: ClientManager) -> None:
        self.waiting: dict[int, list[Frame]] = {}  # by the numbers of sessions: what they said since
        self._link = link
        self._manager = manager

    def add(self, got: Frame) -> bool:
        """Hold a frame behind those of its session that wait; always True. ProtocolError for more than a client has under way."""
        if len(self.waiting[got.session]) >= HELD_MAX:
            raise ProtocolError(f"{HELD_MAX} frames of a session wait for a destination to be known; wait for answers")
        self.waiting[got.session].append(got)
        return True

    def must_learn(self, got: Frame, session: Session, destination: str) -> bool:
        """Whether a frame waits until its destination is known here."""
        target = self._manager.managers[session.channel]
        if not target.must_learn(destination, partial(self._learned, got, session)):
            return False
        self.waiting[got.session] = []
        return True

    def must_wait(self, got: Frame, session: Session, destination: str) -> bool:
        """Whether a frame waits until its destination is created."""
        target = self._manager.managers[session.channel]
        if not target.must_wait(destination, partial(self._learned, got, session)):
            return False
        self.waiting[got.session] = []
        return True

    def _learned(self, got: Frame, session: Session) -> None:
        held = self.waiting.pop(got.session, [])
        if self._link.carries(got.session, session):
            self._link.go_on(got, is_learned=True)
            for each in held:
                self._link.go_on(each, is_learned=False)


# Messages that may have a selector.
_SELECTING = frozenset((frame.Attach, frame.Browse, frame.Manage))


def long_selector_in(message: frame.Message) -> str:
    """The selector of a message, if it takes more than a moment to parse; "" otherwise."""
    if type(message) not in _SELECTING:  # every frame comes here
        return ""
    selector: object = ""
    if isinstance(message, frame.Attach | frame.Browse):
        selector = message.selector
    elif isinstance(message, frame.Manage):
        selector = message.arguments.get("selector")
    return selector if isinstance(selector, str) and len(selector) > PARSED_AT_ONCE else ""
