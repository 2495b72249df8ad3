"""Congestion: which sessions take nothing for the moment, because of their own link or of that of their client manager."""

from __future__ import annotations

from collections.abc import Callable, Collection

# Past so many, sessions that have no receiver any more are forgotten.
SESSIONS_MAX = 1_024


class Congestion:
    def __init__(self) -> None:
        self._sessions: set[str] = set()
        self._client_managers: set[str] = set()

    def note_session(self, session: str, is_congested: bool, attached: Callable[[], Collection[str]]) -> None:
        """The link of a session is congested, or is so no more. `attached` gives the sessions that have receivers."""
        _note(self._sessions, session, is_congested)
        if len(self._sessions) > SESSIONS_MAX:
            self._sessions.intersection_update(attached())

    def note_client_manager(self, subject: str, is_congested: bool) -> None:
        """A client manager takes nothing of what is published to it, or does so again."""
        _note(self._client_managers, subject, is_congested)

    def is_passed_over(self, session: str, route: str) -> bool:
        """Whether nothing is to be delivered to a session that is reached on this subject."""
        return session in self._sessions or any(is_part_of(route, each) for each in self._client_managers)


def is_part_of(route: str, client_manager: str) -> bool:
    """Whether a subject is that of a client manager, or of a part of it (`client_manager.START.PART`)."""
    return route == client_manager or route.startswith(f"{client_manager}.")


def _note(noted: set[str], which: str, is_in: bool) -> None:
    if is_in:
        noted.add(which)
    else:
        noted.discard(which)
