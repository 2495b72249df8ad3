"""Flow control at a client manager: it knows which destinations are full, tells their senders, and refuses batches that come
all the same (B12).

It remembers the senders to a destination that has a high water, so that they hear at once when it is blocked or free. Other
destinations cost nothing here.

Order: once a batch of a producer was refused, its later batches for the same destination are refused too, even if there is room
by then. This ends when the producer sends again under the refused number, or a lower one.

A transaction has no such numbers: of a session that came when its destination was full, all are refused until there is room.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from msgspec.structs import replace

from holdfast.bus.bus import CLIENT_MANAGERS, Bus
from holdfast.bus.message import Watermark, WatermarksTold
from holdfast.channel.channel import Receipt
from holdfast.destination.command import BatchCommand
from holdfast.destination.state.deduplication import Repeated
from holdfast.errors import Blocked, HoldfastError
from holdfast.session.session import Session

# Producers of one session whose refusals are remembered. A session uses one or two, and opens a new one after a refusal.
REFUSALS_MAX = 16

# Batches that were applied before they were known to be durable: a group commit has fewer.
APPLIED_MAX = 65_536

Tell = Callable[[str, Watermark], None]
ToldRepeated = Callable[[Receipt | HoldfastError, Repeated], None]


class _Refusal:
    def __init__(self, sequence: int) -> None:
        self.sequence = sequence
        self.destinations: dict[str, None] = {}


class ClientFlow:
    def __init__(self, bus: Bus, tell: Tell) -> None:
        """`tell` tells a session how full a destination is."""
        self.is_watching = False  # there is a destination with a high water
        self._tell = tell
        self._levels: dict[str, Watermark] = {}
        self._epochs: dict[str, int] = {}  # by message manager: what a deposed primary still says is not heard
        self._senders: dict[str, dict[str, None]] = {}
        # By destination, while it is full: sessions that came when it was. Their transactions wait for room; those of others may
        # have been under way.
        self._turned_away: dict[str, set[str]] = {}
        self._refusals: dict[str, dict[str, _Refusal]] = {}  # by session, by producer
        self._stop_listening = bus.listen(CLIENT_MANAGERS, self.hear)

    def stop(self) -> None:
        self._stop_listening()

    # --- from the message manager ------------------------------------------------------------------------------------

    def hear(self, message: object) -> None:
        if not isinstance(message, Watermark) or self._is_deposed(message.manager, message.epoch):
            return
        before = self._levels.pop(message.destination, None)
        senders = self._senders.get(message.destination, {})
        if message.has_high_water:
            self._levels[message.destination] = message
        else:
            self._senders.pop(message.destination, None)
        self.is_watching = bool(self._levels)
        if not message.is_blocked:
            self._turned_away.pop(message.destination, None)
        if before is not None and before.is_blocked != message.is_blocked:
            for session in list(senders):
                self._tell(session, message)

    def hear_all(self, told: WatermarksTold) -> None:
        """A message manager has told all its destinations with a high water: others that were known have none any more."""
        if self._is_deposed(told.manager, told.epoch):
            return
        names = {level.destination for level in told.levels}
        gone = [each for each in self._levels.values() if each.manager == told.manager and each.destination not in names]
        for level in (
            *(Watermark(each.destination, False, manager=told.manager, epoch=told.epoch) for each in gone),
            *told.levels,
        ):
            self.hear(level)

    def _is_deposed(self, manager: str, epoch: int) -> bool:
        known = self._epochs[manager] = max(epoch, self._epochs.get(manager, 0))
        return epoch < known

    def is_blocked(self, destination: str) -> bool:
        found = self._levels.get(destination)
        return found is not None and found.is_blocked

    # --- from sessions -----------------------------------------------------------------------------------------------

    def check(self, session: Session, batch: BatchCommand) -> None:
        """Check a batch before it is appended. Blocked when its destination takes nothing more."""
        refusal = self._refusals.get(session.id, {}).get(batch.producer) if self._refusals else None
        if refusal is not None and batch.sequence <= refusal.sequence:
            del self._refusals[session.id][batch.producer]
            refusal = None
        level = self._levels.get(batch.destination)
        is_news = level is not None and self._note_sender(session, level)
        is_behind = refusal is not None and batch.destination in refusal.destinations
        is_part = not batch.producer
        was_turned_away = is_part and session.id in self._turned_away.get(batch.destination, ())
        if is_news or is_behind or was_turned_away or (level is not None and level.is_refusing):
            self._refuse(session, batch, refusal, level.reason if level is not None else "")

    def _note_sender(self, session: Session, level: Watermark) -> bool:
        """Remember a sender; whether it is news to it that the destination is full."""
        senders = self._senders.setdefault(level.destination, {})
        if session.id in senders:
            return False
        senders[session.id] = None
        if level.is_blocked:
            self._turned_away.setdefault(level.destination, set()).add(session.id)
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
        """Tell a session that goes on over a new link which of its destinations are full."""
        for destination, senders in self._senders.items():
            if session in senders and self._levels[destination].is_blocked:
                self._tell(session, self._levels[destination])

    def forget(self, session: str) -> None:
        self._refusals.pop(session, None)
        for senders in self._senders.values():
            senders.pop(session, None)
        for turned_away in self._turned_away.values():
            turned_away.discard(session)


class AppliedReceipts:
    """Receipts of batches whose destination deduplicates. They are given when the batch is durable and applied: only then is it
    known which of its events are repetitions."""

    def __init__(self, apply_now: Callable[[], None]) -> None:
        """`apply_now` has the batch applied without a pause."""
        self._apply_now = apply_now
        self._durable: dict[int, tuple[Receipt, ToldRepeated]] = {}  # by entry, not applied
        self._applied: OrderedDict[int, tuple[int, Repeated]] = OrderedDict()  # by entry, not known to be durable yet

    def durable(self, told: ToldRepeated, outcome: Receipt | HoldfastError) -> None:
        if isinstance(outcome, HoldfastError):
            told(outcome, ())
            return
        self._apply_now()
        taken = self._applied.pop(outcome.entry, None)
        if taken is None:
            self._durable[outcome.entry] = (outcome, told)
        else:
            told(replace(outcome, entry=taken[0]), taken[1])

    def forget(self) -> None:
        """Another primary answers, and not about these: their clients send them again."""
        self._durable.clear()
        self._applied.clear()

    def applied(self, entry: int, taken_as: int, repeated: Repeated) -> None:
        """The batch of this entry was applied; as that of entry `taken_as`, when it had come before."""
        waiting = self._durable.pop(entry, None)
        if waiting is None:
            self._applied[entry] = (taken_as, repeated)
            if len(self._applied) > APPLIED_MAX:  # appends that failed, and were durable after all
                self._applied.popitem(last=False)  # a plain dict would look through all that were taken out before
        else:
            waiting[1](replace(waiting[0], entry=taken_as), repeated)
