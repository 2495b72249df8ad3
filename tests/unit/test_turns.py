"""Turns into the channel: order within a session, room between sessions (B22)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from holdfast.channel.channel import Buffer, Purpose, Receipt, Told
from holdfast.destination import command
from holdfast.destination.command import BatchCommand
from holdfast.node.turns import (
    BESIDE_QUIET_BYTES_MAX,
    GRANTED_AT_ONCE_SECONDS,
    GRANTED_EVENT_SECONDS,
    QUIET_BYTES_MAX,
    UNDER_WAY_BYTES_MAX,
    Turns,
)

AT_ONCE = round(GRANTED_AT_ONCE_SECONDS / GRANTED_EVENT_SECONDS)
BATCH = bytes(UNDER_WAY_BYTES_MAX // 4)
MINE = BatchCommand("orders", "mine", 1)


class SlowChannel:
    """Makes durable what it has when it is told to."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Buffer, Told]] = []
        self.written: list[Buffer] = []

    def submit(self, body: Buffer, purpose: Purpose, told: Told) -> None:
        self.waiting.append((body, told))

    def sync_one(self) -> None:
        body, told = self.waiting.pop(0)
        self.written.append(body)
        told(Receipt(len(self.written), 1, True))


class Timers:
    """A clock of which time passes when it is told to."""

    def __init__(self) -> None:
        self.due: list[Callable[[], None]] = []
        self.us = 0

    def now_ms(self) -> int:
        return 0

    def now_us(self) -> int:
        self.us += 1
        return self.us

    def call_later(self, delay_ms: int, function: Callable[[], None]) -> Any:
        self.due.append(function)

    def pass_by(self) -> None:
        due, self.due = self.due, []
        for function in due:
            function()


def flood(turns: Turns, session: str, count: int, told: list[Any]) -> None:
    for number in range(count):
        sent = BatchCommand("orders", session, number)
        turns.submit(session, sent, BATCH, lambda outcome, number=number: told.append(number))  # type: ignore[misc]


def test_what_a_quiet_session_sends_waits_for_a_part_of_what_another_floods_with_b22() -> None:
    channel, timers = SlowChannel(), Timers()
    told: list[Any] = []
    turns = Turns(channel, timers)  # type: ignore[arg-type]
    flood(turns, "flood", 40, told)

    turns.submit("quiet", MINE, b"mine", lambda outcome: told.append("mine"))

    assert len(channel.waiting) <= 6
    while channel.waiting or timers.due:
        while channel.waiting:
            channel.sync_one()
        timers.pass_by()
    assert told.index("mine") <= 5
    assert [each for each in told if each != "mine"] == list(range(40))


def test_beside_a_quiet_session_a_flood_has_little_under_way_and_pauses_b22(monkeypatch: Any) -> None:
    now = 100.0
    monkeypatch.setattr("holdfast.node.turns.time.monotonic", lambda: now)
    channel, timers = SlowChannel(), Timers()
    told: list[Any] = []
    turns = Turns(channel, timers)  # type: ignore[arg-type]
    turns.submit("quiet", MINE, b"mine", lambda outcome: told.append("mine"))
    flood(turns, "flood", 12, told)

    assert sum(len(body) for body, _ in channel.waiting) < BESIDE_QUIET_BYTES_MAX + len(BATCH) + QUIET_BYTES_MAX
    while channel.waiting:
        channel.sync_one()
    before = len(told)
    assert before < 12  # nothing more goes in until the pause is over

    timers.pass_by()
    assert channel.waiting
    now += 1.0  # the quiet one has been silent for long
    while channel.waiting:
        channel.sync_one()
    assert [each for each in told if each != "mine"] == list(range(12))


def test_a_session_that_sends_one_by_one_is_not_beside_itself(monkeypatch: Any) -> None:
    monkeypatch.setattr("holdfast.node.turns.time.monotonic", lambda: 100.0)
    channel = SlowChannel()
    told: list[Any] = []
    turns = Turns(channel, Timers())  # type: ignore[arg-type]
    turns.submit("both", MINE, b"mine", lambda outcome: told.append("mine"))
    channel.sync_one()

    flood(turns, "both", 12, told)

    assert sum(len(body) for body, _ in channel.waiting) >= UNDER_WAY_BYTES_MAX


def test_a_session_that_is_alone_is_not_held_back(monkeypatch: Any) -> None:
    now = 0.0
    monkeypatch.setattr("holdfast.node.turns.time.monotonic", lambda: now)
    channel = SlowChannel()
    told: list[Any] = []
    turns = Turns(channel, Timers())  # type: ignore[arg-type]
    flood(turns, "flood", 1, told)
    now = 5.0

    flood(turns, "flood", 40, told)

    assert len(channel.waiting) == 41


def test_what_waits_for_its_turn_is_dropped_with_the_link_and_nothing_else_is() -> None:
    channel = SlowChannel()
    told: list[Any] = []
    turns = Turns(channel, Timers())  # type: ignore[arg-type]
    flood(turns, "flood", 40, told)
    turns.submit("quiet", MINE, b"mine", lambda outcome: told.append("mine"))

    turns.drop("flood")
    while channel.waiting:
        channel.sync_one()
    flood(turns, "flood", 1, told)

    assert told == [0, 1, 2, 3, "mine"]
    assert len(channel.waiting) == 1


def test_a_batch_has_the_time_at_which_it_went_in_however_long_it_waited_and_whatever_it_said_before() -> None:
    channel, timers = SlowChannel(), Timers()
    turns = Turns(channel, timers)  # type: ignore[arg-type]
    for number in range(40):
        turns.submit("flood", BatchCommand("orders", "flood", number, 1 << 60), BATCH, lambda outcome: None)
    turns.submit("quiet", MINE, b"mine", lambda outcome: None)

    while channel.waiting or timers.due:
        while channel.waiting:
            channel.sync_one()
        timers.pass_by()

    written = [command.decode(body) for body in channel.written]
    assert [made.accepted_us for made, _ in written] == list(range(1, 42))  # type: ignore[attr-defined]
    assert sum(payload == BATCH for _, payload in written) == 40


def test_alone_what_a_session_grants_takes_effect_at_once() -> None:
    timers, effects = Timers(), []
    turns = Turns(SlowChannel(), timers)  # type: ignore[arg-type]

    turns.grant("flood", 1_000_000, lambda: effects.append(1))

    assert effects == [1]
    assert not timers.due


def test_beside_a_quiet_session_a_flood_receives_no_faster_than_it_may_and_all_it_granted_counts_b22() -> None:
    timers, effects = Timers(), []
    turns = Turns(SlowChannel(), timers)  # type: ignore[arg-type]
    turns.submit("quiet", MINE, b"mine", lambda outcome: None)

    for number in range(6):
        turns.grant("flood", AT_ONCE // 3, lambda number=number: effects.append(number))  # type: ignore[misc]

    assert effects == [0, 1, 2]
    assert len(timers.due) == 1
    timers.pass_by()
    assert effects == [0, 1, 2, 3, 4, 5]


def test_beside_a_quiet_session_who_receives_little_waits_for_nothing() -> None:
    timers, effects = Timers(), []
    turns = Turns(SlowChannel(), timers)  # type: ignore[arg-type]
    turns.submit("quiet", MINE, b"mine", lambda outcome: None)

    turns.grant("one by one", 1, lambda: effects.append("one by one"))
    turns.grant("quiet", 100_000, lambda: effects.append("quiet itself"))

    assert effects == ["one by one", "quiet itself"]


def test_what_was_granted_over_a_lost_link_is_void() -> None:
    timers, effects = Timers(), []
    turns = Turns(SlowChannel(), timers)  # type: ignore[arg-type]
    turns.submit("quiet", MINE, b"mine", lambda outcome: None)
    turns.grant("flood", 2 * AT_ONCE, lambda: effects.append("before"))

    turns.drop("flood")
    turns.grant("flood", 2 * AT_ONCE, lambda: effects.append("after"))
    timers.pass_by()

    assert effects == ["after"]
