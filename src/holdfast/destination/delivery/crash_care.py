"""Crash care: after a crash, events are handed out one at a time, so that one that kills its program is found and counted.

    to all receivers together   until one is finished, and while anything waits that was delivered before; a receiver that is at
                                work for long holds up nobody else
    to each receiver            until so many are finished, or nothing is left that was placed before

Each event is noted in the channel before it is handed out (`InHand`), and a receiver gets it only when its program asks for it.
So an event that kills its program, and the journal with it, is known afterwards, is counted, and reaches its limit (rule 5).
Other backlogs that the program uses do not matter here. A client that does not say how far it has handed out gets as many as
ever: it would not ask.
"""

from __future__ import annotations

from holdfast.destination.backlog.backlog import Backlog
from holdfast.destination.delivery.credit import Receiver

# More than the verdicts that a client gathers before it sends them: the event that a program worked on is among them.
FINISHED_MAX = 1_000
# Others wait for an event that one receiver has in hand for no longer than this. An event that kills does so at once, mostly; a
# program may need another receiver's event before it decides on this one, or an hour.
ALONE_MS_MAX = 5_000


class CrashCare:
    def __init__(self, backlog: Backlog) -> None:
        self._backlog = backlog
        self._placed_before = backlog.next_slot
        self._left = FINISHED_MAX
        self._at_work: dict[Receiver, int] = {}  # until when it is alone
        self.again_at_ms: int | None = None  # when a receiver that was refused an event may be handed one

    @property
    def is_over(self) -> bool:
        return self._left <= 0 or self._backlog.oldest_slot() >= self._placed_before

    def allows_more(self, now_ms: int) -> bool:
        """A receiver that is not at work may be handed an event."""
        is_one_for_all = self._left == FINISHED_MAX or bool(self._backlog.history.counted)
        alone_until_ms = max(self._at_work.values(), default=0) if is_one_for_all else 0
        self.again_at_ms = alone_until_ms if alone_until_ms > now_ms else None
        return self.again_at_ms is None

    def hand(self, receiver: Receiver, now_ms: int) -> None:
        """The receiver is handed an event. It gets no other until its program asks for the next, or has decided."""
        receiver.is_at_work = True
        self._at_work[receiver] = now_ms + ALONE_MS_MAX

    def free(self, receiver: Receiver) -> None:
        """The program asks for the next event, or the receiver is gone."""
        receiver.is_at_work = False
        self._at_work.pop(receiver, None)

    def free_idle(self) -> list[Receiver]:
        """Free the receivers that hold nothing any more, because their programs have decided; which ones."""
        freed = [receiver for receiver in self._at_work if not receiver.entries]
        for receiver in freed:
            self.free(receiver)
        return freed

    def end(self) -> list[Receiver]:
        freed = list(self._at_work)
        for receiver in freed:
            self.free(receiver)
        return freed

    def finish(self, events: int) -> None:
        """Programs have finished so many events."""
        self._left -= events
