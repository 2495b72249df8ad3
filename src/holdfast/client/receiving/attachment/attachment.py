"""The attachment of a receiver to a queue or subscription: its terms, which subscription it is, and what it says it holds.

    open ─▶ Attach, with what is held ─▶ answered: which subscription, and what of that is lost
     ▲           again on every new link, and when everything begins anew

A **keeper** (`held=`) keeps what it is handed on a disk of its own, as a relay does. When it starts again it comes holding that:
the bodies are not sent again, and no delivery is counted. Of what it says it holds it has all that is not finished, and that
nobody else was handed meanwhile; the rest is `lost`. If the server gives its session up, and it begins anew on a later link, it
asks its program once more what it holds. On a server that was restored from a backup positions mean other events: then it ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.client.receiving.attachment.held import Held
from holdfast.client.receiving.receive_options import Asked
from holdfast.client.sending.batch_builder import Kind
from holdfast.errors import BadSetting, Detached, SubscriptionRemoved
from holdfast.event.position import Ranges
from holdfast.wire.frame import Attach

if TYPE_CHECKING:
    from holdfast.client.connection.session import Session

REMOVED = "subscription {!r} of {!r} was removed while there was no link; subscribe again for new events"
# Ranges that a keeper says it holds: half of a frame. What it holds beyond is sent again.
RANGES_HELD_MAX = 32_768

# What a keeper holds when it begins.
Holds = Callable[[], Ranges]


class Attachment:
    def __init__(
        self,
        session: Session,
        receiver: int,
        destination: str,
        kind: Kind,
        subscription: str,
        asked: Asked,
        held: Held,
        holds: Holds | None,
    ) -> None:
        """`held`: what the receiver holds, kept by others too. `holds`: of a keeper."""
        self.subscription = subscription
        self.lost = Ranges()  # of what it said it holds when it began
        self._held = held
        self._holds = holds
        self._session = session
        self._receiver = receiver
        self._destination = destination
        self._kind: Kind = kind
        self._asked = asked._replace(keeps=holds is not None)
        self._incarnation = ""
        self._made_at: int | None = None  # which subscription of this name it is; None before it is known

    @property
    def is_keeping(self) -> bool:
        return self._holds is not None

    @property
    def is_durable(self) -> bool:
        return bool(self.subscription) and self._asked.is_durable

    @property
    def identity(self) -> str:
        """The incarnation of the server's channel, and the entry that made the subscription; "" before it is attached."""
        return "" if self._made_at is None else f"{self._incarnation}:{self._made_at}"

    def begin(self) -> None:
        """It attaches for the first time, or anew because the server gave its session up: a keeper says what it holds. Detached
        if the server is another one than it was."""
        incarnation, before = self._session.incarnation, self._incarnation
        if self._holds is None:
            return
        if before and incarnation != before:
            raise Detached(
                f"the server of {self._destination!r} is another one, or was restored from a backup: the positions that are held "
                f"mean other events there (it was {before}, and is {incarnation}); receive anew, holding nothing"
            )
        wanted = self._holds()
        self._held.clear()
        for first, last in next(wanted.portions(RANGES_HELD_MAX), Ranges()):
            self._held.add(first, last)

    def frame(self, token: int, given_back: Iterable[tuple[int, int]], ahead: bytes) -> Attach:
        """The frame that says what the receiver holds, less what it gave back."""
        held = self._held.copy()
        for first, last in given_back:
            held.remove(first, last)
        holding = held.ranges().to_bytes()
        made = Attach(token, self._receiver, self._destination, self._kind, self.subscription, holding, *self._asked)
        return msgspec.structs.replace(made, ahead=ahead)

    def is_again(self) -> None:
        """It was replaced, or taken over, once: a later change is another program's wish."""
        self._asked = self._asked._replace(replace=False, take_over=False)

    def attached(self, answer: Any) -> Ranges:
        """The events that it holds no longer. SubscriptionRemoved if its durable subscription was gone, and is made anew."""
        told = answer if isinstance(answer, dict) else {}
        before, self._made_at = self._made_at, told.get("made_at", 0)
        self._incarnation = self._session.incarnation
        if before and self._made_at != before and self.is_durable:
            self._session.detach_later(self._receiver)
            raise SubscriptionRemoved(REMOVED.format(self.subscription, self._destination), subscription=self.subscription)
        return Ranges.from_bytes(told.get("lost", b""))

    def lose(self, lost: Ranges) -> None:
        """Some of what it said it holds when it began is not its own."""
        self.lost = lost
        for first, last in lost:
            self._held.remove(first, last)


def holds_of(given: Any) -> Holds:
    """What `held=` was given, as a function: ranges are held once, at the beginning."""
    if callable(given):
        return lambda: ranges_of(given(), "held")
    once = [ranges_of(given, "held")]
    return lambda: once.pop() if once else Ranges()


def ranges_of(given: Ranges | Iterable[tuple[int, int]], what: str = "ranges") -> Ranges:
    """Ranges as they were given, or from pairs of a first and a last position."""
    if isinstance(given, Ranges):
        return given
    try:
        pairs = [(first, last) for first, last in given]
        if all(type(each) is int for pair in pairs for each in pair) and all(0 <= first <= last for first, last in pairs):
            return Ranges.gather(pairs)
    except (TypeError, ValueError, OverflowError):
        pass
    raise BadSetting(f"{what} are pairs of a first and a last position, not {given!r:.60}", setting=what)
