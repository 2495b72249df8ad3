"""When a batch was accepted: written by the client manager, kept with the batch wherever it lies, unknown in what older releases
wrote (rule 9, D2).
"""

from __future__ import annotations

import struct
from typing import Any

import msgspec
import pytest

from holdfast.channel.memory_channel import MemoryChannel
from holdfast.destination import command
from holdfast.destination.backlog.bodies import Body, body_in
from holdfast.destination.command import BatchCommand, Carried, Part
from holdfast.node.clock import SystemClock
from holdfast.node.identity import Identity
from holdfast.node.messages.upkeep import _NAMES_BYTES, CARRIED_COUNT_MAX
from holdfast.node.node import Node
from holdfast.wire.frame import Commit, Deliver, Goodbye, Message, Receipted, Send
from holdfast.wire.frame import Part as PartFrame
from tests.machines import batch_of
from tests.raw_client import RawClient
from tests.running_server import SETTINGS

NOW_US = 1_800_000_000_123_456
LIES = [0, 1, -1, NOW_US + 1, 1 << 63, (1 << 64) - 1]
SIZE = len(batch_of(1))


class StoppedClock(SystemClock):
    def now_us(self) -> int:
        return NOW_US


class Company:
    """A node whose clock stands still, and a client that says what it likes."""

    async def __aenter__(self) -> RawClient:
        self.node = await Node.over(MemoryChannel(), Identity.in_memory(), SETTINGS, StoppedClock())
        await self.node.messages.wait_until_primary()
        client = RawClient(self.node)
        await client.greet()
        return client

    async def __aexit__(self, *exc: object) -> None:
        await self.node.close()


def raw(kind: type[command.Command], head: list[Any], payload: bytes = b"") -> bytes:
    """A command as any release may have written it."""
    encoded = msgspec.msgpack.encode(head)
    return struct.pack("<BH", kind.KIND, len(encoded)) + encoded + payload


async def said(client: RawClient, message: Message, body: bytes | memoryview) -> int:
    """The entry of what was accepted."""
    client.say(message, body)  # type: ignore[arg-type]
    return int((await client.hear(Receipted, len(client.of(Receipted)) + 1))[-1].entry)


# --- the client manager writes it ------------------------------------------------------------------------------------


@pytest.mark.parametrize("lie", LIES)
async def test_a_client_that_says_when_its_batch_was_accepted_is_not_believed(lie: int) -> None:
    company = Company()
    async with company as client:
        producer = await client.open_producer()
        body = raw(BatchCommand, ["q", producer, 1, lie], batch_of(3))

        entry = await said(client, Send(1), body)

        (found,) = await company.node.channel.fetch([entry])
        assert command.decode(found) == (BatchCommand("q", producer, 1, NOW_US), memoryview(batch_of(3)))


async def test_a_client_that_knows_nothing_of_it_is_served_as_any_other() -> None:
    async with Company() as client:
        producer = await client.open_producer()
        await client.receive()

        await said(client, Send(1), raw(BatchCommand, ["q", producer, 1], batch_of(2)))

        (delivered,) = await client.hear(Deliver)
        assert [(each.events, each.accepted_us) for each in delivered.slices] == [(2, NOW_US)]


@pytest.mark.parametrize("buffer", [bytes, bytearray, lambda body: memoryview(bytearray(body))])
async def test_the_bytes_of_a_client_are_left_as_they_are(buffer: Any) -> None:
    """Embedded, they are what the client itself keeps to send it again."""
    async with Company() as client:
        producer = await client.open_producer()
        before = raw(BatchCommand, ["q", producer, 1, (1 << 64) - 1], batch_of(1))
        body = buffer(before)

        await said(client, Send(1), body)

        assert bytes(body) == before


async def test_what_is_no_number_ends_the_link() -> None:
    async with Company() as client:
        producer = await client.open_producer()

        client.say(Send(1), raw(BatchCommand, ["q", producer, 1, "noon"], batch_of(1)))

        await client.until_lost()
        assert client.of(Goodbye)[0].code == "protocol-error"


@pytest.mark.parametrize("lie", LIES)
async def test_a_part_has_the_time_at_which_it_was_accepted_and_its_events_with_it_rule_10(lie: int) -> None:
    async with Company() as client:
        await client.receive()
        head = [client.session, "t", 1, "q", (0, 0), 0, 0, lie]

        await said(client, PartFrame(1), raw(Part, head, batch_of(2)))
        await client.ask(Commit, "t", 1)

        (delivered,) = await client.hear(Deliver)
        assert [(each.events, each.accepted_us) for each in delivered.slices] == [(2, NOW_US)]


async def test_a_fragment_is_appended_as_it_came() -> None:
    """It is no event, and large: it is not copied for a time that nobody asks for."""
    company = Company()
    async with company as client:
        body = command.encode(Part(client.session, "t", 1, fragment_bytes=9), b"a fragment")

        entry = await said(client, PartFrame(1), body)

        assert await company.node.channel.fetch([entry]) == [body]


# --- where it lies ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "accepted_us"),
    [
        (raw(BatchCommand, ["news.eu", "p", 1], batch_of(1)), 0),
        (raw(BatchCommand, ["news.eu", "p", 1, NOW_US], batch_of(1)), NOW_US),
        (raw(Part, ["ann", "t", 1, "news.eu", (0, 0), 0, 0], batch_of(1)), 0),
        (raw(Part, ["ann", "t", 1, "news.eu", (0, 0), 0, 0, NOW_US], batch_of(1)), NOW_US),
        (raw(Carried, [1, [6, 7], [SIZE, SIZE], ["news.us", "news.eu"]], batch_of(1, 6) + batch_of(1)), 0),
        (raw(Carried, [1, [6, 7], [SIZE, SIZE], ["news.us", "news.eu"], [5, NOW_US]], batch_of(1, 6) + batch_of(1)), NOW_US),
    ],
)
def test_where_and_when_a_batch_was_sent_is_read_from_commands_of_every_release(data: bytes, accepted_us: int) -> None:
    assert body_in(data, 7) == Body(memoryview(batch_of(1)), "news.eu", accepted_us)


def test_a_carried_batch_of_the_oldest_release_is_found_without_where_and_when() -> None:
    assert body_in(raw(Carried, [1, [7], [len(batch_of(1))]], batch_of(1)), 7) == Body(memoryview(batch_of(1)), "", 0)


def test_the_largest_carried_command_has_room_for_all_times_rule_9() -> None:
    most, name = CARRIED_COUNT_MAX, _NAMES_BYTES // CARRIED_COUNT_MAX
    entries, times = [(1 << 48) - each for each in range(most)], [NOW_US] * most

    encoded = command.encode(Carried(1 << 40, entries, [1 << 20] * most, ["x" * name] * most, times))

    assert command.decode(encoded)[0] == Carried(1 << 40, entries, [1 << 20] * most, ["x" * name] * most, times)
