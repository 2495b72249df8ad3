"""The verdict outbox: verdicts are sent as Settle frames, kept until they are answered, and sent again on a new link.

A verdict that is sent twice counts once: it has a number. An event stays held until the verdict on it is applied: until then the
server may ask, after a takeover or a lost link, who holds it.

If this recipient was away for too long, another may be first with an event. The server says so, and the event is not settled.
For whatever reason, `settled` names every event whose verdict was not applied, or may not have been: all others are settled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, get_args

from holdfast.client.link.outbox import Outbox
from holdfast.client.receiving.attachment.held import Held
from holdfast.client.receiving.verdict_buffer import Code, Settlement, VerdictRanges
from holdfast.destination.command import RANGES_MAX
from holdfast.errors import AlreadyFinished, Detached, HoldfastError, LinkLost, OutcomeUnknown, Unreachable
from holdfast.event.position import Ranges
from holdfast.wire.frame import Settle

if TYPE_CHECKING:
    from holdfast.client.connection.session import Session

# Settle frames in flight; while so many are, notes gather into longer ranges.
SETTLES_MAX = 16
# Ranges of events whose verdicts were not applied, kept until the program asks.
UNSETTLED_MAX = 10_000


class VerdictOutbox:
    def __init__(
        self,
        session: Session,
        receiver: int,
        destination: str,
        held: Held,
        gone: Callable[[HoldfastError], None],
        handed: Callable[[], int],
    ) -> None:
        """`gone`: told when the receiver is detached. `handed`: the position handed out last, sent with every verdict."""
        self.verdicts = VerdictRanges()
        self.lost = Held()  # events that the program was handed, and that went to others before its verdict was heard
        self._unsettled = Held()  # events that `settled` has to name
        self._number = 0
        self._session = session
        self._receiver = receiver
        self._destination = destination
        self._held = held
        self._gone = gone
        self._handed = handed
        self._outbox: Outbox[int, Settlement] = Outbox(SETTLES_MAX)
        self._error: HoldfastError | None = None
        self._discarded: HoldfastError | None = None

    @property
    def _is_idle(self) -> bool:
        return not (self._outbox.in_flight or self._outbox.waiting or self.verdicts.noted)

    def flush(self) -> None:
        """Send what is noted, unless there is no link, or enough in flight."""
        outbox = self._outbox
        if self.verdicts.noted and self._session.is_ready and len(outbox.in_flight) < outbox.window:
            for settlement in self.verdicts.take():
                self.settle(settlement)
        self._send_waiting()

    def settle(self, settlement: Settlement) -> None:
        """Send verdicts, in as many frames as it takes: a command has room for so many ranges."""
        if len(settlement.ranges) <= RANGES_MAX:
            self._outbox.waiting.append(settlement)
        else:
            for ranges in settlement.ranges.portions(RANGES_MAX):
                events = self._about(ranges).count if settlement.events else 0
                self._outbox.waiting.append(settlement._replace(ranges=ranges, events=events))
        self._send_waiting()

    def _about(self, ranges: Ranges) -> Ranges:
        """The events of these ranges that the program was handed. A range may span slices, and events of others between them."""
        return Ranges.gather((*self._held.within(ranges), *self.lost.within(ranges)))

    def _send_waiting(self, is_resuming: bool = False) -> None:
        """Send as much as the window allows, once the session is resumed. Before that, verdicts of the link before go again: the
        server takes a number that is left out for one that was applied."""
        outbox = self._outbox
        if is_resuming or self._session.is_ready:
            while outbox.waiting and len(outbox.in_flight) < outbox.window:
                self._send(outbox.waiting.popleft())

    def _send(self, settlement: Settlement) -> None:
        if not settlement.number:
            self._number = max(self._number, self._session.counts_from) + 1
            settlement = settlement._replace(number=self._number)
        token, future = self._session.question()
        self._outbox.sent(token, settlement)
        future.add_done_callback(lambda done: self._answered(token, done))
        self._session.say(
            Settle(
                token, self._receiver, settlement.verdict, settlement.ranges.to_bytes(), self.verdicts.highest,
                settlement.delay_ms, settlement.is_counted, settlement.reason, **_code_of(settlement),
                number=settlement.number, events=settlement.events, handed=self._handed(),
                wait=settlement.wait, channel=self._session.channel,
            )
        )  # fmt: skip

    def _answered(self, token: int, done: asyncio.Future[Any]) -> None:
        error = None if done.cancelled() else done.exception()
        settlement = None if isinstance(error, LinkLost) else self._outbox.answered(token)
        if settlement is None:
            self._outbox.changed.wake()
            return
        if error is None and isinstance(done.result(), list | tuple):
            self._applied_in_part(settlement, done.result())
        if isinstance(error, HoldfastError):
            self._fail(error, [settlement])
        for first, last in settlement.ranges:
            self._held.remove(first, last)
            if self.lost:
                self.lost.remove(first, last)
        if isinstance(error, Detached):
            self._gone(error)
        self.flush()

    def _applied_in_part(self, settlement: Settlement, answer: Sequence[bytes]) -> None:
        """The answer has the ranges that the verdict took effect on; none, if they are not known any more."""
        about = self._about(settlement.ranges)
        if not answer and about:
            error = LinkLost(
                f"verdicts on {about.count} events of {self._destination!r} were applied in part, because another recipient had "
                f"finished some, and which is not known since the link was lost ({about.told()})"
            )
            self._fail(error, [settlement])
        elif answer:
            self._name(about.without(Ranges.from_bytes(answer[0])))

    def _fail(self, error: HoldfastError, settlements: Iterable[Settlement]) -> None:
        """Verdicts were not applied, or may not have been. The second weighs more: the program must not take them for refused."""
        is_known = not isinstance(error, OutcomeUnknown)
        if self._error is None or not (is_known or isinstance(self._error, OutcomeUnknown)):
            self._error = error
        for settlement in settlements:
            if settlement.events:
                self._name(self._about(settlement.ranges))

    def _name(self, ranges: Ranges) -> None:
        for first, last in ranges:
            if len(self._unsettled) < UNSETTLED_MAX:
                self._unsettled.add(first, last)

    def delivered(self, first: int, last: int) -> None:
        """These events come, perhaps again: then their release was applied, and they are held once more."""
        in_flight = self._outbox.in_flight
        for token, settlement in in_flight.items():
            if settlement.verdict == "release":
                in_flight[token] = settlement._replace(ranges=settlement.ranges.without(Ranges.of((first, last))))
        if self.lost:
            self.lost.remove(first, last)

    def lose(self, lost: Ranges) -> None:
        """These events are held no more: they went to others while there was no link. The first verdict on each counts."""
        for first, last in list(self._held.within(lost)):
            self._held.remove(first, last)
            self.lost.add(first, last)

    def forgotten(self) -> None:
        """The server gave the session up: verdicts that were sent and not answered may have been applied before."""
        sent = [self._about(each.ranges) for each in self._outbox.in_flight.values() if each.events]
        about = Ranges.gather(each for ranges in sent for each in ranges)
        if about:
            error = LinkLost(
                f"the link was lost for so long that the server forgot the session; whether the verdicts on {about.count} events "
                f"of {self._destination!r} that were sent before were applied is not known ({about.told()})"
            )
            self._fail(error, self._outbox.in_flight.values())

    def send_again(self) -> None:
        """Send again, on a new link, the verdicts that were not answered."""
        self._outbox.go_first(self._outbox.take_back())
        self._send_waiting(is_resuming=True)

    def given_back(self) -> Iterator[tuple[int, int]]:
        """Events whose release is not answered: somebody else may hold them by now, whose claim counts."""
        for settlement in self._outbox.in_flight.values():
            if settlement.verdict == "release":
                yield from settlement.ranges

    def decided(self) -> Iterator[tuple[int, int]]:
        """Every position whose verdict is not applied yet. Verdicts that were only noted are sent, or are next."""
        for settlement in self.verdicts.take():
            self.settle(settlement)
        for settlement in (*self._outbox.in_flight.values(), *self._outbox.waiting):
            yield from settlement.ranges

    def discard(self, error: HoldfastError) -> None:
        """Nothing is held any more; verdicts that were not applied will not be."""
        self._discarded = error
        if not self._is_idle:
            self._fail(error, (*self._outbox.in_flight.values(), *self._outbox.waiting, *self.verdicts.take()))
        self.verdicts.forget()
        self._outbox.clear()
        self._held.clear()
        self.lost.clear()

    def note_too_late(self, ranges: Ranges) -> None:
        """Verdicts on events that were discarded."""
        if self._discarded is not None:
            self._fail(self._discarded, ())
        self._name(ranges)

    async def sent(self) -> None:
        """Return when every verdict so far is on its way; at once if there is no link."""
        self.flush()
        while self._session.is_ready and (self._outbox.waiting or self.verdicts.noted):
            await self._outbox.changed.wait()
        self._session.connection.push()

    async def settled(self, timeout: float) -> None:
        """Wait until every verdict is applied or refused. LinkLost when that is not known in time."""
        deadline = self._session.connection.loop.time() + timeout
        self.flush()
        while not self._is_idle:
            try:
                await self._outbox.changed.wait(deadline)
            except TimeoutError as problem:
                raise self._too_late(timeout) from problem

    def _too_late(self, timeout: float) -> HoldfastError:
        if self._outbox.in_flight:
            return LinkLost(f"the verdicts were sent and not answered within {timeout:g} s; they may have been applied")
        return Unreachable(f"the verdicts could not be sent within {timeout:g} s: {self._session.connection.problem_text}")

    def raise_error(self) -> None:
        """Raise the first refusal since the last call, with the positions of all events that were not settled."""
        error, self._error = self._error, None
        unsettled = self._unsettled.ranges()
        self._unsettled.clear()
        if error is None and not unsettled:
            return
        error = error or AlreadyFinished(
            f"{unsettled.count} events of {self._destination!r} were finished by another recipient, or a limit, before this "
            f"verdict ({unsettled.told()}); discard what was done for them, the other verdicts are applied"
        )
        raise type(error)(error.sentence, **{**error.fields, "positions": list(unsettled), "events": unsettled.count})


def _code_of(settlement: Settlement) -> dict[str, Any]:
    """The code in the field that has it: an older server knows those of a worker and of a broken head alone."""
    return {"code": settlement.code} if settlement.code in get_args(Code) else {"death": settlement.code}
