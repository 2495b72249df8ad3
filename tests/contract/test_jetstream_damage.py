"""Damage on JetStream: what is gone, wrong or given again is noticed and named, and never passed over (rule 4 of the cluster)."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import nats
import pytest

from holdfast.channel.jetstream.direct_get import DirectGet
from holdfast.channel.jetstream.entries import Entries
from holdfast.channel.jetstream.jetstream_channel import JetStreamChannel
from holdfast.channel.jetstream.reader import Reader
from holdfast.channel.jetstream.settings import Names, checksum_of, message_headers, message_id
from holdfast.errors import Damaged
from tests.contract.channels import PATIENCE_S, append_all, commands, read_up_to, reading
from tests.contract.test_jetstream import new_name, settings
from tests.nats_server import NatsServer

# --- entries ---------------------------------------------------------------------------------------------------------------


async def test_entries_purged_by_somebody_else_are_damage_and_not_passed_over(nats_server: NatsServer) -> None:
    name = new_name()
    channel = await JetStreamChannel.open(name, settings(nats_server))
    await append_all(channel, commands(20))
    connection = await nats.connect(nats_server.url)
    await connection.jetstream().purge_stream(Names(name).stream, seq=10)

    with pytest.raises(Damaged, match="entry 1 "):
        await read_up_to(channel, 1, 20)
    with pytest.raises(Damaged, match="entry 9 "):
        await channel.fetch([9, 10])

    assert [number for number, _ in await read_up_to(channel, 10, 20)] == list(range(10, 21))
    await connection.close()
    await channel.close()


async def test_a_gap_in_the_middle_is_damage_and_what_stands_before_it_is_handed_out(nats_server: NatsServer) -> None:
    """A stream made by `open` lets nobody delete single entries; this one does, as a broken disk would."""
    names = Names(new_name())
    connection = await nats.connect(nats_server.url)
    context = connection.jetstream()
    await context.add_stream(name=names.state_stream, subjects=[f"{names.state_subject}.>"])
    await context.add_stream(name=names.stream, subjects=[names.subject], allow_direct=True)
    for number, command in enumerate(commands(9)):
        headers = message_headers(names.stream, message_id("", number), checksum_of(command))
        await context.publish(names.subject, command, headers=headers)
    await context.delete_msg(names.stream, 6)
    direct = DirectGet(connection, names)
    await direct.start()
    entries = Entries(connection, names, settings(nats_server), direct, lambda number: None)

    found: list[int] = []
    with pytest.raises(Damaged, match="entry 6 "):
        async for run in Reader(connection, names, entries, direct, lambda: None).runs(1):
            found.extend(each.number for each in run)

    assert found == [1, 2, 3, 4, 5]
    await connection.close()


async def test_a_message_without_a_checksum_is_damage_and_what_stands_before_it_is_handed_out(nats_server: NatsServer) -> None:
    name = new_name()
    channel = await JetStreamChannel.open(name, settings(nats_server))
    await append_all(channel, commands(3))
    connection = await nats.connect(nats_server.url)
    await connection.jetstream().publish(Names(name).subject, b"written by a stranger")
    await connection.close()

    found: list[int] = []
    with pytest.raises(Damaged, match="no copy of entry 4 is as it was stored"):
        async with reading(channel, 1) as runs:
            while True:
                found += [number for number, _ in await asyncio.wait_for(anext(runs), PATIENCE_S)]
    with pytest.raises(Damaged, match="entry 4"):
        await append_all(channel, commands(1, 5))
        await channel.fetch([3, 4, 5])

    assert found == [1, 2, 3]
    await channel.close()


async def test_a_bit_flipped_in_the_only_copy_is_damage_and_not_a_gap(tmp_path: Path) -> None:
    with NatsServer(tmp_path) as server:
        name = new_name()
        channel = await JetStreamChannel.open(name, settings(server))
        await append_all(channel, [b"command %d" % number * 100 for number in range(1, 21)])
        server.stop()
        flip_a_bit(server, name, b"command 13")
        server.start()

        with pytest.raises(Damaged, match="entry 13 "):
            await read_up_to(channel, 1, 20)

        assert len(await channel.fetch(range(1, 13))) == 12
        assert len(await channel.fetch(range(14, 21))) == 7
        await channel.close()


def flip_a_bit(server: NatsServer, name: str, near: bytes) -> None:
    """In the file of a server that is stopped, a few bytes behind some contents."""
    for path in server.blocks(Names(name).stream):
        data = bytearray(path.read_bytes())
        at = data.find(near)
        if at >= 0:
            data[at + len(near) + 50] ^= 1
            path.write_bytes(data)
            return
    raise AssertionError(f"{near!r} is in no file of {server.name}")


# --- the tail --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_noticed_by", ["append", "question"])
async def test_a_server_that_comes_back_with_an_older_disk_is_named_and_nothing_more_is_accepted_or_read(
    is_noticed_by: str, tmp_path: Path
) -> None:
    with NatsServer(tmp_path / "server") as server:
        channel = await JetStreamChannel.open(new_name(), settings(server))
        await append_all(channel, commands(10))
        server.stop()
        shutil.copytree(server.store, tmp_path / "older")
        server.start()
        await append_all(channel, commands(10, 11))
        server.stop()
        shutil.rmtree(server.store)
        shutil.copytree(tmp_path / "older", server.store)
        server.start()

        if is_noticed_by == "append":
            with pytest.raises(Damaged, match="stored as entry 11, although entry 20 was there"):
                await asyncio.wait_for(channel.append(b"takes the number of another"), PATIENCE_S)
        else:
            with pytest.raises(Damaged, match="its last entry is 10, although entry 20 was there"):
                await asyncio.wait_for(anext(aiter(channel.read(21))), PATIENCE_S)

        with pytest.raises(Damaged, match="nothing more is accepted"):
            await channel.append(b"after")
        with pytest.raises(Damaged):
            await read_up_to(channel, 1, 5)
        await channel.close()
