"""Sessions that nobody claims: those that did not come back in time, and those of a former life of the node.

away for longer than the grace ──▶ given up: the events they hold go to others
of a former life, not resumed ───▶ given up
at another client manager ───────▶ left to it
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from typing import TYPE_CHECKING

from holdfast.bus.message import SessionGone
from holdfast.node.clients.manager_link import ManagerLink
from holdfast.node.message_manager_view import RememberedSession
from holdfast.session.session import is_passing

if TYPE_CHECKING:
    from holdfast.node.clients.client_manager import ClientManager

# How often overdue sessions are looked for: a fifth of the grace, so that the grace is kept to within 20 %.
_LOOKS_PER_GRACE = 5


class UnclaimedSessions:
    def __init__(self, clients: ClientManager, start: str) -> None:
        """Look for them from now on. `start` is that of the client manager, in a cluster."""
        self._clients = clients
        self._start = start
        self._plan()

    def _look(self) -> None:
        """Give up sessions that did not come back in time: the events they hold go to others."""
        now, grace_ms = self._clients.clock.steady_ms(), self._clients.settings.session_grace_ms
        for session in [each for each in self._clients.sessions.values() if each.is_overdue(now, grace_ms)]:
            self._clients.forget_session(session)
            self._give_up_overdue(self._clients.managers[session.channel], session.id, session.link)
        for target in self._clients.managers.values():
            target.messages.list_sessions(target.given_up.intersection_update)
        self._plan()

    def _plan(self) -> None:
        later_ms = self._clients.settings.session_grace_ms // _LOOKS_PER_GRACE
        self._timer = self._clients.clock.call_later(later_ms, self._look)

    def _give_up_overdue(self, target: ManagerLink, session: str, link: int) -> None:
        """Give up a session that is away from here, unless it is at another client manager."""
        if not self._start:
            self.give_up(target, session, link)
            return

        def recalled(remembered: RememberedSession | None) -> None:
            if session in self._clients.sessions or remembered is None:
                return
            if remembered.client_manager in ("", self._start):
                self.give_up(target, session, link)

        target.messages.recall_session(session, recalled)

    def give_up_former(self, name: str) -> None:
        """Give up sessions of a former life that did not resume, at one message manager."""
        target = self._clients.managers[name]

        def give_up(known: Set[str]) -> None:
            self._give_up_all(target, (each for each in known if each not in target.given_up and not each.startswith("_")))

        target.messages.list_sessions(give_up)

    def give_up_passing(self, name: str) -> None:
        """Give up sessions of a former life that end with their links: they ended with it."""
        target = self._clients.managers[name]
        target.messages.list_sessions(lambda known: self._give_up_all(target, (each for each in known if is_passing(each))))

    def _give_up_all(self, target: ManagerLink, sessions: Iterable[str]) -> None:
        for session in [each for each in sessions if each not in self._clients.sessions]:
            self.give_up(target, session)

    def give_up(self, target: ManagerLink, session: str, link: int = 0) -> None:
        """A session that is given up cannot be resumed any more, although it is gone only when its Detach is applied. `link`: its
        client may have come elsewhere by a later one; 0: by whatever."""
        target.given_up.add(session)
        target.tell(SessionGone(session, link))

    def stop(self) -> None:
        self._timer.cancel()
