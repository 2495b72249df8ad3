"""The credit of a receiver: how many events and bytes may be on their way to it, or lie here unused.

    granted in full once, then again for what was used up, half of it at a time

Credit that is used while there is no link, or while the receiver is recovered or gives events back, is granted when it goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from holdfast.client import checks
from holdfast.client.link.questions import Questions
from holdfast.client.receiving.received_event import ReceivedSlice
from holdfast.wire.frame import Credit

# Events on their way to a recipient: enough that a fast one never waits for a round trip (four times 1,000 was measured at 2.8x).
CREDIT_EVENTS = 4_000
CREDIT_BYTES = 8 << 20
# The events of a slice may be handed out without another look, however many they are.
ALL = 1 << 30


class ReceiveCredit:
    """Exact credit."""

    stride = ALL  # how many events may be handed out before `work` is told

    def __init__(self, session: Questions, receiver: int, events: int, size: int, handed: Callable[[], int]) -> None:
        """`handed`: the position that the program was handed last; it is sent with every credit."""
        self.used_events = 0
        self.used_bytes = 0
        self.is_paused = False  # events are being given back: nothing is granted
        self._session = session
        self._receiver = receiver
        self._handed = handed
        self._events, self._bytes = checks.credit(events, size)

    def note_round_trip(self, seconds: float) -> None:
        """A question took so long to be answered."""

    def use(self, done: ReceivedSlice) -> None:
        """This slice is used up."""
        self.used_events += done.events
        self.used_bytes += done.size

    def work(self, taken: int) -> None:
        """The program asks, and is handed an event. With it, it has taken so many of the current slice."""

    def hand(self, taken: int) -> None:
        """The program is handed more with it: so many of the current slice in all."""

    def wait(self) -> None:
        """The program asks for an event, and none is here."""
        self.grant_due()

    def count_anew(self, unused: Collection[ReceivedSlice] = ()) -> None:
        """The server has forgotten the credit: all of it counts as used up, but for the slices that lie here."""
        self.used_events = max(0, self._events - sum(each.events for each in unused))
        self.used_bytes = max(0, self._bytes - sum(each.size for each in unused))

    @property
    def _can_say(self) -> bool:
        return self._session.is_ready and not self.is_paused

    def grant_due(self) -> None:
        """Grant what was used up, if that is half of all, and the session can say so."""
        is_due = 2 * self.used_events >= self._events or 2 * self.used_bytes >= self._bytes
        if is_due and self._can_say:
            self.grant()

    def grant_used(self) -> None:
        """Grant what was used up, however little."""
        if self.used_events and self._can_say:
            self.grant()

    def grant(self) -> None:
        """Grant what was used up at once, also while the session is being resumed."""
        self._say(self.used_events)
        self.used_events = 0

    def _say(self, events: int) -> None:
        self._session.say(Credit(self._receiver, events, self.used_bytes, self._handed()))
        self.used_bytes = 0


def make_credit(session: Questions, receiver: int, events: int | None, size: int, handed: Callable[[], int]) -> ReceiveCredit:
    """Credit for so many events; None: for as many as a fast program needs."""
    return ReceiveCredit(session, receiver, CREDIT_EVENTS if events is None else events, size, handed)
