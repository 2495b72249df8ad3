"""Two generations of snapshots on JetStream: what is released, and what happens when the newest one is damaged."""

from __future__ import annotations

import logging

import msgspec
import nats
import pytest

from holdfast.channel.jetstream.jetstream_channel import JetStreamChannel
from holdfast.channel.jetstream.settings import JetStreamSettings, Names
from holdfast.errors import Damaged, NoSuchPosition
from tests.contract.channels import MIB, append_all, commands, read_up_to
from tests.contract.test_jetstream import new_name
from tests.nats_server import NatsServer


def settings(server: NatsServer) -> JetStreamSettings:
    return JetStreamSettings(servers=(server.url,), monitors=(server.monitor,), replicas=1, size_bytes=64 * MIB)


async def lose_chunks(server: NatsServer, name: str, at: int) -> None:
    """What a broken disk would do to the snapshot at an entry."""
    connection = await nats.connect(server.url)
    context, names = connection.jetstream(), Names(name)
    newest = await context.get_last_msg(names.state_stream, f"{names.state_subject}.newest")
    generations = msgspec.json.decode(newest.data or b"")["generations"]
    lost = next(each["id"] for each in generations if each["at"] == at)
    await context.purge_stream(names.state_stream, subject=f"{names.state_subject}.chunk.{lost}.>")
    await connection.close()


async def test_entries_are_released_only_below_the_older_of_two_snapshots(nats_server: NatsServer) -> None:
    channel = await JetStreamChannel.open(new_name(), settings(nats_server))
    await append_all(channel, commands(20))

    await channel.save_snapshot(8, [b"first"])
    await channel.release(9)
    assert channel.first == 1  # if the only snapshot is lost, these entries replace it

    await channel.save_snapshot(15, [b"second"])
    await channel.release(16)
    assert channel.first == 9

    await channel.save_snapshot(20, [b"third"])
    await channel.release(12)
    assert channel.first == 12
    await channel.close()


async def test_a_damaged_newest_snapshot_is_passed_over_and_replay_begins_at_the_one_before(
    nats_server: NatsServer, caplog: pytest.LogCaptureFixture
) -> None:
    name = new_name()
    channel = await JetStreamChannel.open(name, settings(nats_server))
    await append_all(channel, commands(20))
    await channel.save_snapshot(8, [b"first"])
    await channel.save_snapshot(15, [b"second"])
    await channel.release(16)
    await lose_chunks(nats_server, name, 15)

    with caplog.at_level(logging.ERROR):
        snapshot = await channel.load_snapshot()

    assert snapshot is not None
    assert (snapshot.at, list(snapshot.chunks)) == (8, [b"first"])
    assert [number for number, _ in await read_up_to(channel, 9, 20)] == list(range(9, 21))
    assert "the snapshot at entry 15 has lost part 0" in caplog.text
    await channel.close()


async def test_when_both_snapshots_are_damaged_it_is_said(nats_server: NatsServer) -> None:
    name = new_name()
    channel = await JetStreamChannel.open(name, settings(nats_server))
    await append_all(channel, commands(20))
    await channel.save_snapshot(8, [b"first"])
    await channel.save_snapshot(15, [b"second"])
    await lose_chunks(nats_server, name, 8)
    await lose_chunks(nats_server, name, 15)

    with pytest.raises(Damaged, match="the snapshot at entry 8"):
        await channel.load_snapshot()
    await channel.close()


async def test_a_late_save_of_another_program_leaves_both_generations_as_they_were(nats_server: NatsServer) -> None:
    name = new_name()
    channel = await JetStreamChannel.open(name, settings(nats_server))
    late = await JetStreamChannel.open(name, settings(nats_server))
    await append_all(late, commands(20))
    await append_all(channel, commands(1))
    await channel.save_snapshot(8, [b"first"])
    await channel.save_snapshot(15, [b"second"])

    with pytest.raises(NoSuchPosition, match="the newest is as of entry 15"):
        await late.save_snapshot(10, [b"late"])

    await lose_chunks(nats_server, name, 15)
    snapshot = await channel.load_snapshot()
    assert snapshot is not None
    assert snapshot.at == 8
    await channel.close()
    await late.close()
