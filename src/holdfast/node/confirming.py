"""Confirming everything before a place, for the session that owns a subscription (ADR 10).

    place ─▶ what still waits before it, as ranges ─▶ Confirm command ─▶ applied ─▶ the next ranges … ─▶ answered

One command confirms at most a few thousand batches, so that others have their turn between two of them, however much there is.
What is finished already is passed over: it may be said again. That the session is attached is checked by every command (rule 4).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from holdfast.destination import command
from holdfast.destination.subscription import key_of_topic
from holdfast.errors import Detached, HoldfastError
from holdfast.node.actions import text
from holdfast.node.administration import match_of
from holdfast.node.extents import place_in
from holdfast.session.session import ReceiverPlace, Session

if TYPE_CHECKING:
    from holdfast.node.client_manager import ClientManager


class ConfirmingUpTo:
    def __init__(
        self, manager: ClientManager, session: Session, answered: Callable[[Any], None], failed: Callable[[HoldfastError], None]
    ) -> None:
        self._manager = manager
        self._session = session
        self._answered = answered
        self._failed = failed
        self._confirmed = 0

    def begin(self, given: dict[str, Any]) -> None:
        """HoldfastError when it is refused at once; otherwise it is answered with how many events were finished by it."""
        self._asked = given
        self._up_to = place_in(given, "place")
        self._place = ReceiverPlace(key_of_topic(text(given, "topic"), match_of(given)), text(given, "subscription"))
        if self._place not in self._session.receivers.values():
            raise Detached(
                f"this session does not own subscription '{self._place.subscription}' of {self._place.destination!r}, or does no "
                "longer; confirm inside `async with reading.owner()`",
                subscription=self._place.subscription,
            )
        self._go_on()

    def _go_on(self) -> None:
        self._manager.ask("ranges_before", self._asked, self._manager.next_token(self._found, self._failed))

    def _found(self, found: dict[str, Any]) -> None:
        if not found["is_news"]:
            self._answered({"events": self._confirmed})
            return
        up_to = found["up_to"]
        token = self._manager.next_token(lambda events: self._applied(events, up_to), self._failed)
        made = command.Confirm(*self._place, self._session.id, found["ranges"], 0, self._manager.subject, token, up_to)
        self._manager.submit(made, token)

    def _applied(self, events: int, up_to: int) -> None:
        self._confirmed += events
        if up_to < self._up_to:
            self._go_on()
        else:
            self._answered({"events": self._confirmed})
