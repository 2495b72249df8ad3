"""The credit of a receiver: how many events and bytes may be on their way to it, or lie here unused.

    granted in full once, then again for what was used up, half of it at a time

The `credit_window` says how many events; this module says it to the server. Credit that falls due while there is no link, or
while the receiver is recovered, is granted when it goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from holdfast.client import checks
from holdfast.client.link.questions import Questions
from holdfast.client.receiving.credit.credit_window import MOST_EVENTS, CreditWindow
from holdfast.client.receiving.received_event import ReceivedSlice
from holdfast.wire.frame import Credit

CREDIT_EVENTS = MOST_EVENTS
CREDIT_BYTES = 8 << 20


class ReceiveCredit:
    def __init__(
        self,
        session: Questions,
        receiver: int,
        events: int | None,
        size: int,
        handed: Callable[[], int],
        now_s: Callable[[], float],
    ) -> None:
        """`events`: exactly so many; None: as many as the program needs. `handed`: the position that the program was handed last;
        it is sent with every credit."""
        checked, self._bytes = checks.credit(CREDIT_EVENTS if events is None else events, size)
        self.window = CreditWindow(None if events is None else checked)
        self.used_bytes = 0
        self.is_careful = False  # events come one at a time: the next is asked for when the program asks for it, and not before
        self._is_used = False  # something was, since the last credit
        self._session = session
        self._receiver = receiver
        self._handed = handed
        self._now_s = now_s

    # --- what is used ------------------------------------------------------------------------------------------------

    def use(self, events: int, size: int) -> None:
        """So many events and bytes are used up: the program was handed them."""
        self.window.use(events)
        self.used_bytes += size
        self._is_used = True

    def drop(self, events: int, size: int) -> None:
        """So many events and bytes are used up, and the program was not handed them."""
        self.window.drop(events)
        self.used_bytes += size
        self._is_used = True

    def hand(self, handed: int) -> None:
        """The program is handed an event. With it, it was handed so many of the current slice."""
        window = self.window
        if window.is_adapting and not self.is_careful:
            if window.waits_since_s is not None:
                window.go_on(self._now_s())
            if 2 * (window.open - handed) <= window.size:
                self.grant_due(handed)

    def wait(self) -> None:
        """The program asks for an event, and none is here."""
        self.grant_due()
        self.window.wait(self._now_s())

    def count_anew(self, unused: Collection[ReceivedSlice] = ()) -> None:
        """The server has forgotten the credit: all of it counts as used up, but for the slices that lie here."""
        self.window.begin(sum(each.events for each in unused))
        self.used_bytes = max(0, self._bytes - sum(each.size for each in unused))
        self._is_used = True

    # --- what is granted ---------------------------------------------------------------------------------------------

    def grant_due(self, handed: int = 0) -> None:
        """Grant what was used up, if that is half of all, and the session can say so."""
        if self.window.is_adapting and self.window.is_due(handed):
            self.window.look(self._now_s(), handed)
        if (self.window.is_due(handed) or 2 * self.used_bytes >= self._bytes) and self._session.is_ready:
            self.grant(handed)

    def grant_used(self) -> None:
        """Grant what was used up, however little: nothing, if the window has become smaller. The server waits for the word."""
        if self._is_used and self._session.is_ready:
            self.grant()

    def grant(self, handed: int = 0) -> None:
        """Grant what was used up at once, also while the session is being resumed."""
        self._say(self.window.grant(handed))

    def withdraw(self, here: int) -> None:
        """Take back what was granted, but for so many events, which lie here. More is granted when the program asks."""
        withdrawn = self.window.withdraw(here)
        if withdrawn and self._session.is_ready:
            self._say(0, withdrawn)

    def _say(self, events: int, withdrawn: int = 0) -> None:
        self._session.say(Credit(self._receiver, events, self.used_bytes, self._handed(), withdrawn))
        self.used_bytes = 0
        self._is_used = False
