"""Flow control at a client manager: it knows which destinations are full, tells those who send to them, and refuses what comes
although they were told (B12).

Who sends to a destination that has a high water is remembered, so that it hears at once when the destination is blocked or free;
of all other destinations nothing is remembered.

Order: once a batch of a producer was refused, later ones of it for the same destination are refused too, even if there is room
by then, until the producer goes back and sends under the refused number, or a lower one, again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from holdfast.bus.bus import Bus
from holdfast.bus.message import AdministrationAsked, Watermark
from holdfast.destination import name
from holdfast.destination.command import BatchCommand
from holdfast.errors import Blocked
from holdfast.node.attachment import check_destination
from holdfast.node.flow import CLIENT_MANAGERS
from holdfast.session.session import Session

if TYPE_CHECKING:
    from holdfast.node.client_manager import ClientManager

# Producers of one session of which a refusal is remembered: they use one or two, and open a new one after a refusal.
REFUSALS_MAX = 16

Tell = Callable[[str, Watermark], None]


class _Refusal:
    def __init__(self, sequence: int) -> None:
        self.sequence = sequence
        self.destinations: dict[str, None] = {}


class Sending:
    def __init__(self, bus: Bus, tell: Tell) -> None:
        """`tell` says to a session how full a destination is."""
        self._tell = tell
        self._levels: dict[str, Watermark] = {}
        self._senders: dict[str, dict[str, None]] = {}
        self._refusals: dict[str, dict[str, _Refusal]] = {}  # by session, by producer
        self.stop = bus.listen(CLIENT_MANAGERS, self.hear)

    @property
    def is_watching(self) -> bool:
        """There is a destination with a high water."""
        return bool(self._levels)

    # --- what the message manager says -------------------------------------------------------------------------------

    def hear(self, message: object) -> None:
        if not isinstance(message, Watermark):
            return
        before = self._levels.pop(message.destination, None)
        senders = self._senders.get(message.destination, {})
        if message.has_high_water:
            self._levels[message.destination] = message
        else:
            self._senders.pop(message.destination, None)
        if before is not None and before.is_blocked != message.is_blocked:
            for session in list(senders):
                self._tell(session, message)

    # --- what sessions do --------------------------------------------------------------------------------------------

    def check(self, session: Session, batch: BatchCommand) -> None:
        """Before a batch is appended. Blocked when its destination takes nothing more."""
        refusal = self._refusals.get(session.id, {}).get(batch.producer) if self._refusals else None
        if refusal is not None and batch.sequence <= refusal.sequence:
            del self._refusals[session.id][batch.producer]
            refusal = None
        level = self._levels.get(batch.destination)
        is_news = level is not None and self._note_sender(session, level)
        is_behind = refusal is not None and batch.destination in refusal.destinations
        if is_news or is_behind or (level is not None and level.is_refusing):
            self._refuse(session, batch, refusal, level.reason if level is not None else "")

    def _note_sender(self, session: Session, level: Watermark) -> bool:
        """Whether it is news to this session that the destination is full."""
        senders = self._senders.setdefault(level.destination, {})
        if session.id in senders:
            return False
        senders[session.id] = None
        if level.is_blocked:
            self._tell(session.id, level)
        return level.is_blocked

    def _refuse(self, session: Session, batch: BatchCommand, refusal: _Refusal | None, reason: str) -> None:
        if refusal is None:
            of_session = self._refusals.setdefault(session.id, {})
            refusal = of_session[batch.producer] = _Refusal(batch.sequence)
            if len(of_session) > REFUSALS_MAX:
                del of_session[next(iter(of_session))]
        refusal.destinations[batch.destination] = None
        why = reason or "an earlier batch was refused"
        raise Blocked(
            f"{batch.destination!r} is full ({why}); nothing was accepted, send it again when it is free",
            destination=batch.destination,
        )

    def tell_again(self, session: str) -> None:
        """A session goes on over a new link."""
        for destination, senders in self._senders.items():
            if session in senders and self._levels[destination].is_blocked:
                self._tell(session, self._levels[destination])

    def forget(self, session: str) -> None:
        self._refusals.pop(session, None)
        for senders in self._senders.values():
            senders.pop(session, None)


def check_send(manager: ClientManager, destination: str, kind: Literal["queue", "topic"]) -> None:
    """As `check_destination`, for a batch: to some of Holdfast's own destinations only Holdfast itself sends."""
    if destination.startswith("_"):
        name.check_sendable(destination)
        if destination == name.ADMIN:
            manager.tell_messages(AdministrationAsked())
    check_destination(manager, destination, kind)
