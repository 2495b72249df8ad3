"""The deliverer's short way: what is in memory goes out within `wake`, a little of it; the rest in turns, by tasks."""

from __future__ import annotations

import itertools

import pytest

from holdfast.bus.bus import InProcessBus
from holdfast.bus.message import Delivered
from holdfast.channel.channel import Buffer, Purpose
from holdfast.channel.memory_channel import MemoryChannel
from holdfast.destination import command as commands
from holdfast.destination import effect
from holdfast.destination.command import Attach, Command, Create, Detach, Release, Subscribe
from holdfast.destination.directory import Directory
from holdfast.event.position import Ranges
from holdfast.node.clock import Clock, SystemClock
from holdfast.node.delivering.deliverer import Deliverer
from holdfast.node.delivering.delivery_loop import EVENTS_AT_ONCE, HANDOUTS_AT_ONCE
from tests.machines import batch_of, ranges
from tests.waiting import turn_loop, until


class Forgetful(MemoryChannel):
    """Has everything, and nothing at hand: as a journal whose tail has left its memory."""

    def recent(self, numbers: object, bytes_max: int) -> list[Buffer] | None:
        return None


class Ticking(SystemClock):
    """A millisecond later at each look."""

    def __init__(self) -> None:
        self._ticks = itertools.count(1)
        super().__init__(lambda: next(self._ticks) * 1_000_000, lambda: 0)


class Delivering:
    """A deliverer over real parts, driven by hand: nothing is handed out before `wake` is called."""

    def __init__(self, channel: MemoryChannel, clock: Clock | None = None) -> None:
        self.delivered: list[Delivered] = []
        self.directory = Directory()
        self.channel = channel
        bus = InProcessBus()
        bus.listen("client_manager.test", self.delivered.append)
        self.deliverer = Deliverer(self.directory, channel, bus, clock or SystemClock())
        self.deliverer.begin(1, {})

    async def apply(self, command: Command, payload: bytes = b"") -> None:
        encoded = commands.encode(command, payload)
        receipt = await self.channel.append(encoded, Purpose.EVENTS)
        for each in self.directory.apply(receipt.entry, encoded):
            self.deliverer.placed(each) if isinstance(each, effect.Placed) else self.deliverer.act(each)

    async def attach(self, receiver: int, destination: str, subscription: str = "", selector: str = "") -> None:
        self.deliverer.expect(("ann", receiver), "client_manager.test", Ranges())
        await self.apply(Attach("ann", receiver, destination, subscription, selector=selector))
        self.deliverer.grant(("ann", receiver), 1_000, 1 << 20)

    async def until_delivered(self, events: int) -> None:
        await until(lambda: self.events >= events, f"{events} events are delivered")
        assert self.events == events

    @property
    def events(self) -> int:
        return sum(each.events for message in self.delivered for each in message.slices)


async def test_an_event_that_is_in_memory_is_handed_out_within_wake() -> None:
    delivering = Delivering(MemoryChannel())
    await delivering.apply(Create("orders", "queue"))
    await delivering.attach(1, "orders")

    await delivering.apply(commands.BatchCommand("orders", "", 0), batch_of(3))
    delivering.deliverer.wake()

    assert [(message.session, message.receiver) for message in delivering.delivered] == [("ann", 1)]
    assert [bytes(each.batch) for each in delivering.delivered[0].slices] == [batch_of(3)]


async def test_an_event_that_must_be_fetched_is_handed_out_by_a_task() -> None:
    delivering = Delivering(Forgetful())
    await delivering.apply(Create("orders", "queue"))
    await delivering.attach(1, "orders")

    await delivering.apply(commands.BatchCommand("orders", "", 0), batch_of(3))
    delivering.deliverer.wake()
    assert delivering.delivered == []
    await delivering.until_delivered(3)

    assert [bytes(each.batch) for each in delivering.delivered[0].slices] == [batch_of(3)]


async def test_a_flood_over_many_backlogs_leaves_others_a_turn() -> None:
    delivering, count = Delivering(MemoryChannel()), HANDOUTS_AT_ONCE + 5
    await delivering.apply(Create("alerts", "topic"))
    for number in range(1, count + 1):
        await delivering.apply(Subscribe("alerts", f"s{number}", True))
        await delivering.attach(number, "alerts", f"s{number}")

    await delivering.apply(commands.BatchCommand("alerts", "", 0), batch_of(1))
    delivering.deliverer.wake()
    at_once = len(delivering.delivered)
    await delivering.until_delivered(count)

    assert at_once == HANDOUTS_AT_ONCE
    assert sorted(message.receiver for message in delivering.delivered) == list(range(1, count + 1))


async def test_a_flood_in_one_backlog_leaves_others_a_turn_and_keeps_its_order() -> None:
    delivering, count = Delivering(MemoryChannel()), 3 * EVENTS_AT_ONCE
    await delivering.apply(Create("orders", "queue"))
    await delivering.attach(1, "orders")

    for _ in range(count):
        await delivering.apply(commands.BatchCommand("orders", "", 0), batch_of(1))
    delivering.deliverer.wake()
    at_once = delivering.events
    await delivering.until_delivered(count)

    assert at_once == EVENTS_AT_ONCE
    firsts = [each.first for message in delivering.delivered for each in message.slices]
    assert firsts == sorted(firsts) and len(firsts) == count


@pytest.mark.parametrize("due_after", range(1, 20))
async def test_an_event_that_becomes_due_at_any_look_at_the_clock_reaches_a_receiver_with_a_selector(due_after: int) -> None:
    clock = Ticking()
    delivering = Delivering(MemoryChannel(), clock)
    await delivering.apply(Create("orders", "queue"))
    await delivering.apply(commands.BatchCommand("orders", "", 0), batch_of(1))
    await delivering.attach(1, "orders")
    await delivering.until_delivered(1)

    await delivering.apply(Release("orders", "", "ann", ranges(2), clock.now_ms() + due_after))
    await delivering.apply(Detach("ann", 1))
    await delivering.attach(2, "orders", selector="1 = 1")

    await delivering.until_delivered(2)


# --- client managers of other processes ------------------------------------------------------------------------------


async def with_a_receiver() -> Delivering:
    """A queue with a receiver that has credit."""
    delivering = Delivering(MemoryChannel())
    await delivering.apply(Create("orders", "queue"))
    await delivering.attach(1, "orders")
    return delivering


async def test_receivers_behind_a_client_manager_that_takes_nothing_are_passed_over_until_it_does() -> None:
    delivering = await with_a_receiver()
    delivering.deliverer.client_manager_congested("client_manager.tes", True)  # another one
    delivering.deliverer.client_manager_congested("client_manager.test", True)

    await delivering.apply(commands.BatchCommand("orders", "", 0), batch_of(3))
    delivering.deliverer.wake()
    await turn_loop(5)
    assert delivering.events == 0

    delivering.deliverer.client_manager_congested("client_manager.test", False)
    await delivering.until_delivered(3)


async def test_one_that_attaches_behind_a_congested_client_manager_is_passed_over_too() -> None:
    delivering = Delivering(MemoryChannel())
    await delivering.apply(Create("orders", "queue"))
    delivering.deliverer.client_manager_congested("client_manager.test", True)
    await delivering.attach(1, "orders")

    await delivering.apply(commands.BatchCommand("orders", "", 0), batch_of(3))
    delivering.deliverer.wake()
    await turn_loop(5)
    assert delivering.events == 0

    delivering.deliverer.client_manager_congested("client_manager.test", False)
    await delivering.until_delivered(3)


async def test_a_session_is_passed_over_while_its_own_link_or_that_of_its_client_manager_is_congested() -> None:
    delivering = await with_a_receiver()
    delivering.deliverer.congested("ann", True)
    delivering.deliverer.client_manager_congested("client_manager.test", True)
    await delivering.apply(commands.BatchCommand("orders", "", 0), batch_of(3))

    delivering.deliverer.client_manager_congested("client_manager.test", False)
    await turn_loop(5)
    assert delivering.events == 0

    delivering.deliverer.congested("ann", False)
    await delivering.until_delivered(3)


async def test_when_the_link_with_a_client_manager_begins_anew_credit_is_void_until_it_is_granted_again() -> None:
    delivering = await with_a_receiver()
    delivering.deliverer.client_manager_congested("client_manager.test", True)

    delivering.deliverer.link_began("client_manager.test")
    await delivering.apply(commands.BatchCommand("orders", "", 0), batch_of(3))
    delivering.deliverer.wake()
    await turn_loop(5)
    assert delivering.events == 0

    delivering.deliverer.grant(("ann", 1), 1_000, 1 << 20)
    await delivering.until_delivered(3)


async def test_what_a_session_held_whose_client_manager_is_gone_comes_back_counted_or_marked_once() -> None:
    """The primary knows what it has sent there. Found by the simulation of whole nodes."""
    delivering = await with_a_receiver()
    await delivering.apply(commands.BatchCommand("orders", "", 0), batch_of(3))
    delivering.deliverer.wake()
    await delivering.until_delivered(3)
    first = delivering.delivered[0].slices[0].first
    delivering.deliverer.reached(("ann", 1), first)

    issued = delivering.channel.durable + 1
    for _ in range(3):  # said again while it is not applied
        delivering.deliverer.detach_lost("ann", 4)
    await until(lambda: delivering.channel.durable >= issued + 2, "the commands are durable")

    made = [commands.decode(each)[0] for each in await delivering.channel.fetch(range(issued, delivering.channel.durable + 1))]
    assert [type(each) for each in made] == [Release, Release, Detach]
    counted, marked, detach = made
    assert isinstance(counted, Release) and isinstance(marked, Release) and isinstance(detach, Detach)
    assert (counted.is_counted, counted.ranges) == (True, ranges((first, first + 1)))  # the next one may be in its hands
    assert (marked.is_counted, marked.ranges) == (False, ranges((first + 2, first + 2)))
    assert {counted.link, marked.link, detach.link} == {4}
    assert {counted.epoch, marked.epoch, detach.epoch} == {1}
