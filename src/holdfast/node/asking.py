"""What is asked over a link: frames with a token, each answered exactly once.

    Browse                 ──▶ looking      large pages in turn
    ReadFragment           ──▶ assembling   one after the other
    Attach, Confirm, ...   ──▶ request

An answer goes only to the session that asked, and only while this link carries it: one that goes on over another link asks anew.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from holdfast.errors import TooLarge
from holdfast.node.assembling import FragmentReader
from holdfast.node.looking import PagesInTurn, Reply, browse, check_browse
from holdfast.node.request import Request
from holdfast.session.session import Session
from holdfast.wire import frame
from holdfast.wire.link import Link

if TYPE_CHECKING:
    from holdfast.node.client_link import ClientLink
    from holdfast.node.client_manager import ClientManager


class Asking:
    def __init__(self, client_link: ClientLink, link: Link, manager: ClientManager) -> None:
        self._client_link = client_link
        self._manager = manager
        self._fragments = FragmentReader(manager, link)
        self._pages = PagesInTurn(link)

    def browse(self, number: int, session: Session, message: frame.Browse) -> None:
        session.asked()
        check_browse(message)
        look, reply = partial(browse, self._manager, session, message), self._reply(number, session)
        self._pages.ask(look, reply) if message.bytes else look(reply)

    def read_fragment(self, number: int, session: Session, message: frame.ReadFragment) -> None:
        session.asked()
        self._fragments.ask(session, message, self._reply(number, session))

    def _reply(self, number: int, session: Session) -> Reply:
        link = self._client_link

        def reply(told: frame.Message, body: frame.Buffer) -> None:
            if not link.is_lost and link.sessions.get(number) is session:
                session.answered()
                link.say(number, told, body)

        return reply

    def request(self, number: int, session: Session, message: Any) -> None:
        session.asked()
        link = self._client_link

        def reply(told: Any) -> None:
            if not link.is_lost and link.sessions.get(number) is session:
                session.answered()
                if type(told) is frame.Answered:
                    self._note_attached(session.id, message)
                try:
                    link.say(number, told)
                except TooLarge as problem:
                    link.say(number, frame.Failed.of(told.token, problem))

        request = Request(
            self._manager,
            session,
            lambda value: reply(frame.Answered(message.token, value)),
            lambda problem: reply(frame.Failed.of(message.token, problem)),
        )
        request.begin(message)

    def _note_attached(self, session: str, message: Any) -> None:
        if isinstance(message, frame.Attach):
            self._client_link.attached.add((session, message.receiver))
        elif isinstance(message, frame.DetachReceiver):
            self._client_link.attached.discard((session, message.receiver))

    def stop(self) -> None:
        """The link is lost: nobody waits."""
        self._fragments.stop()
        self._pages.stop()
