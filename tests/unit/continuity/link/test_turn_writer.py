"""Writes of one turn: the first at once, the rest together, all in order, none lost at the end."""

from __future__ import annotations

import asyncio
import socket
from typing import cast

from holdfast.continuity.link.turn_writer import TurnWriter, is_local
from tests.waiting import turn_loop


class CountedWrites:
    """A real transport, whose writes are counted."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self.writes: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.writes.append(data)
        self._transport.write(data)

    def __getattr__(self, name: str) -> object:
        return getattr(self._transport, name)


async def test_the_first_message_of_a_turn_goes_at_once_and_the_others_together_in_their_order() -> None:
    ours, theirs = socket.socketpair()
    reader, end = await asyncio.open_connection(sock=theirs)
    transport, _ = await asyncio.get_running_loop().create_connection(asyncio.Protocol, sock=ours)
    counted = CountedWrites(transport)
    writer = TurnWriter(cast(asyncio.Transport, counted), asyncio.get_running_loop())

    for each in (b"1", b"2", b"3"):
        writer.write(each)
    assert counted.writes == [b"1"] and writer.unsent_bytes == 2
    await turn_loop()
    writer.write(b"4")
    writer.write(b"5")
    writer.flush()
    transport.close()

    assert await reader.read() == b"12345"
    assert counted.writes == [b"1", b"23", b"45"] and writer.unsent_bytes == 0
    end.close()
    await end.wait_closed()


async def test_where_a_write_costs_little_every_message_goes_at_once() -> None:
    ours, theirs = socket.socketpair()
    reader, end = await asyncio.open_connection(sock=theirs)
    transport, _ = await asyncio.get_running_loop().create_connection(asyncio.Protocol, sock=ours)
    counted = CountedWrites(transport)
    assert is_local(transport)
    writer = TurnWriter(cast(asyncio.Transport, counted), asyncio.get_running_loop(), is_gathering=False)

    writer.write(b"1")
    writer.write(b"2")
    transport.close()

    assert counted.writes == [b"1", b"2"] and await reader.read() == b"12"
    end.close()
    await end.wait_closed()
