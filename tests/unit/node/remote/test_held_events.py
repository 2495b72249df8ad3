"""Events wait while their message manager is not heard, in order, and not for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from holdfast.channel.channel import Buffer, OnOutcome, Purpose, Receipt
from holdfast.errors import Blocked, HoldfastError, Unreachable
from holdfast.node.clock import SystemClock
from holdfast.node.remote import held_events
from holdfast.node.remote.held_events import HELD_MS_MAX, HeldEvents


class Tried(SystemClock):
    """Held events with a clock that stands still between two words of the test."""

    def __init__(self) -> None:
        super().__init__()
        self.is_fresh = False
        self.now_ms_ = 0
        self.due: list[tuple[int, Callable[[], None]]] = []
        self.appended: list[bytes] = []
        self.told: list[Receipt | HoldfastError] = []
        self.held = HeldEvents("m1", lambda: self.is_fresh, self._submit, self)

    def steady_ms(self) -> int:
        return self.now_ms_

    def call_later(self, delay_ms: int, function: Callable[..., None], *arguments: object) -> asyncio.TimerHandle:
        self.due.append((self.now_ms_ + delay_ms, function))
        return asyncio.get_running_loop().call_later(3_600, lambda: None)

    def pass_ms(self, milliseconds: int) -> None:
        self.now_ms_ += milliseconds
        now, self.due = self.due, []
        for at_ms, function in now:
            if at_ms <= self.now_ms_:
                function()
            else:
                self.due.append((at_ms, function))

    def _submit(self, command: Buffer, purpose: Purpose, on_outcome: OnOutcome) -> None:
        self.appended.append(bytes(command))

    def send(self, command: bytes) -> None:
        self.held.submit(command, Purpose.EVENTS, self.told.append)


async def test_events_are_appended_at_once_while_the_primary_is_heard() -> None:
    tried = Tried()
    tried.is_fresh = True
    tried.send(b"1")

    assert tried.appended == [b"1"]
    assert not tried.held


async def test_events_wait_in_order_and_nothing_overtakes_them() -> None:
    tried = Tried()
    tried.send(b"1")
    tried.send(b"2")
    tried.is_fresh = True
    tried.send(b"3")  # the heartbeat has come, and what waits is not appended yet
    assert tried.appended == []

    tried.held.go_on()

    assert tried.appended == [b"1", b"2", b"3"]
    assert not tried.told and not tried.held


async def test_events_that_waited_for_too_long_are_refused_and_later_ones_are_not() -> None:
    tried = Tried()
    tried.send(b"1")
    tried.pass_ms(HELD_MS_MAX // 2)
    tried.send(b"2")
    tried.pass_ms(HELD_MS_MAX // 2)

    assert [type(each) for each in tried.told] == [Unreachable]
    assert len(tried.held) == 1

    tried.pass_ms(HELD_MS_MAX // 2)
    assert [type(each) for each in tried.told] == [Unreachable, Unreachable]
    assert tried.appended == [] and not tried.held


async def test_what_waits_is_bounded() -> None:
    tried = Tried()
    large = bytes(held_events.HELD_BYTES_MAX)
    tried.send(large)
    tried.send(b"1")
    tried.pass_ms(0)

    assert [type(each) for each in tried.told] == [Blocked]
    assert len(tried.held) == 1
