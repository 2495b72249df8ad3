"""Batches go into the channel in fair shares: the shell around the machine of `session.fair_shares` (B22)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from holdfast.channel.channel import Buffer, OnOutcome, Purpose, Receipt
from holdfast.destination import command
from holdfast.destination.command import BatchCommand
from holdfast.errors import DiskFailed, HoldfastError
from holdfast.node.clients.fair_share import FairShare
from holdfast.session.fair_shares import BESIDE_QUIET_BYTES_MIN, COMPANY_SECONDS, QUIET_BYTES_MAX

BATCH = bytes(BESIDE_QUIET_BYTES_MIN // 2)
MINE = BatchCommand("orders", "mine", 1)


class SlowChannel:
    """Makes durable what it has when it is told to."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Buffer, OnOutcome]] = []
        self.written: list[Buffer] = []

    def submit(self, body: Buffer, purpose: Purpose, told: OnOutcome) -> None:
        self.waiting.append((body, told))

    def sync_one(self) -> None:
        body, told = self.waiting.pop(0)
        self.written.append(body)
        told(Receipt(len(self.written), 1, True))

    def sync_all(self) -> None:
        while self.waiting:
            self.sync_one()


class SteadyClock:
    """A clock of which time passes when it is told to. It has no timers: nothing here waits for one."""

    def __init__(self) -> None:
        self.us = 0
        self.steady_s = 100.0

    def steady_ms(self) -> int:
        return round(self.steady_s * 1000)

    def now_us(self) -> int:
        self.us += 1
        return self.us


def flood(fair_share: FairShare, session: str, count: int, told: list[Any]) -> None:
    for number in range(count):
        sent = BatchCommand("orders", session, number)
        fair_share.submit(session, sent, BATCH, lambda outcome, number=number: told.append(number))  # type: ignore[misc]


def test_what_a_quiet_session_sends_waits_for_a_part_of_what_another_floods_with_b22() -> None:
    channel, told = SlowChannel(), list[Any]()
    fair_share = FairShare(channel, SteadyClock())  # type: ignore[arg-type]
    fair_share.submit("quiet", MINE, b"mine", lambda outcome: told.append("mine"))
    flood(fair_share, "flood", 40, told)

    fair_share.submit("quiet", MINE, b"mine", lambda outcome: told.append("mine"))

    assert sum(len(body) for body, _ in channel.waiting) < BESIDE_QUIET_BYTES_MIN + QUIET_BYTES_MAX
    channel.sync_all()
    assert told[:4] == ["mine", 0, 1, "mine"]
    assert [each for each in told if each != "mine"] == list(range(40))


def test_beside_a_quiet_session_the_next_batch_of_a_flood_goes_in_with_each_receipt_and_without_a_pause_b22() -> None:
    channel, told = SlowChannel(), list[Any]()
    fair_share = FairShare(channel, SteadyClock())  # type: ignore[arg-type]
    fair_share.submit("quiet", MINE, b"mine", lambda outcome: told.append("mine"))
    flood(fair_share, "flood", 12, told)
    channel.sync_one()

    for number in range(12):
        assert len(channel.waiting) >= min(2, 12 - number)
        channel.sync_one()

    assert told == ["mine", *range(12)]


def test_a_session_that_is_alone_is_not_held_back() -> None:
    channel, clock, told = SlowChannel(), SteadyClock(), list[Any]()
    fair_share = FairShare(channel, clock)  # type: ignore[arg-type]
    flood(fair_share, "flood", 1, told)
    clock.steady_s += COMPANY_SECONDS

    flood(fair_share, "flood", 200, told)

    assert len(channel.waiting) == 201


def test_what_waits_for_its_turn_is_dropped_with_the_link_and_nothing_else_is() -> None:
    channel, told = SlowChannel(), list[Any]()
    fair_share = FairShare(channel, SteadyClock())  # type: ignore[arg-type]
    fair_share.submit("quiet", MINE, b"mine", lambda outcome: told.append("mine"))
    flood(fair_share, "flood", 40, told)

    fair_share.drop("flood")
    channel.sync_all()
    flood(fair_share, "flood", 1, told)

    assert told == ["mine", 0, 1]
    assert len(channel.waiting) == 1


def test_a_batch_has_the_time_at_which_it_went_in_however_long_it_waited_and_whatever_it_said_before() -> None:
    channel = SlowChannel()
    fair_share = FairShare(channel, SteadyClock())  # type: ignore[arg-type]
    fair_share.submit("quiet", MINE, b"mine", lambda outcome: None)
    for number in range(40):
        fair_share.submit("flood", BatchCommand("orders", "flood", number, 1 << 60), BATCH, lambda outcome: None)
    fair_share.submit("quiet", MINE, b"mine", lambda outcome: None)

    channel.sync_all()

    written = [command.decode(body) for body in channel.written]
    assert [made.accepted_us for made, _ in written] == list(range(1, 43))  # type: ignore[attr-defined]
    assert sum(payload == BATCH for _, payload in written) == 40


def test_batches_that_fail_at_once_are_each_told_so_once_however_many_wait() -> None:
    class BrokenChannel(SlowChannel):
        is_broken = False

        def submit(self, body: Buffer, purpose: Purpose, told: OnOutcome) -> None:
            if self.is_broken:
                told(DiskFailed("no space"))
            else:
                super().submit(body, purpose, told)

    channel, told = BrokenChannel(), list[Any]()
    fair_share = FairShare(channel, SteadyClock())  # type: ignore[arg-type]
    fair_share.submit("quiet", MINE, b"mine", lambda outcome: None)
    flood(fair_share, "flood", 5_000, told)

    channel.is_broken = True
    channel.sync_all()

    assert sorted(told) == list(range(5_000))


def test_a_batch_that_is_asked_about_first_keeps_its_own_session_waiting_and_no_other() -> None:
    channel, told = SlowChannel(), list[Any]()
    asked: list[Callable[[], None]] = []

    def wait_for_selectors(batch: BatchCommand, payload: Buffer, then: Callable[[], None]) -> bool:
        if batch.sequence != 2:
            return False
        asked.append(then)
        return True

    fair_share = FairShare(channel, SteadyClock(), wait_for_selectors)  # type: ignore[arg-type]
    for number in (1, 2, 3):
        sent = BatchCommand("news", "slow", number)
        fair_share.submit("slow", sent, b"slow", lambda outcome, number=number: told.append(number))  # type: ignore[misc]
    fair_share.submit("other", MINE, b"mine", lambda outcome: told.append("mine"))
    channel.sync_all()
    assert told == [1, "mine"]

    asked[0]()
    channel.sync_all()

    assert told == [1, "mine", 2, 3]
    assert len(asked) == 1


def test_a_session_that_is_lost_while_it_is_asked_about_has_sent_nothing_and_an_old_answer_is_not_one_to_a_new_question() -> None:
    channel, asked = SlowChannel(), list[Callable[[], None]]()

    def wait_for_selectors(batch: BatchCommand, payload: Buffer, then: Callable[[], None]) -> bool:
        asked.append(then)
        return True

    fair_share = FairShare(channel, SteadyClock(), wait_for_selectors)  # type: ignore[arg-type]
    fair_share.submit("lost", MINE, b"mine", lambda outcome: None)
    fair_share.drop("lost")
    fair_share.submit("lost", MINE, b"again", lambda outcome: None)

    asked[0]()
    assert channel.waiting == []

    asked[1]()
    assert [bytes(command.decode(body)[1]) for body, _ in channel.waiting] == [b"again"]


def test_a_batch_that_selectors_cannot_be_asked_about_is_refused_and_those_behind_it_go_in() -> None:
    channel, outcomes = SlowChannel(), list[Any]()

    def wait_for_selectors(batch: BatchCommand, payload: Buffer, then: Callable[[], None]) -> bool:
        if batch.sequence == 1:
            raise RuntimeError("a fault of ours")
        return False

    fair_share = FairShare(channel, SteadyClock(), wait_for_selectors)  # type: ignore[arg-type]
    for number in (1, 2, 3):
        fair_share.submit("flood", BatchCommand("news", "flood", number), BATCH, outcomes.append)
    channel.sync_all()

    assert isinstance(outcomes[0], HoldfastError)
    assert len(channel.written) == 2
