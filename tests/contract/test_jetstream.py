"""What only the channel on JetStream has to prove: its servers' settings, other programs beside it, servers that die."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nats
import nats.js.errors
import pytest

from holdfast.channel.channel import Entry, Purpose, Receipt
from holdfast.channel.jetstream.jetstream_channel import JetStreamChannel
from holdfast.channel.jetstream.settings import JetStreamSettings, Names
from holdfast.errors import BadName, BadSetting, Blocked, HoldfastError, OutcomeUnknown, Unavailable
from tests.contract.channels import KIB, MIB, PATIENCE_S, append_all, commands, fill, read_up_to, reading
from tests.nats_server import FORGOTTEN_SOCKETS, NatsServer, forgotten_sockets
from tests.waiting import until

pytestmark = pytest.mark.filterwarnings(FORGOTTEN_SOCKETS)


@pytest.fixture(autouse=True, scope="module")
def sockets() -> Iterator[None]:
    with forgotten_sockets():
        yield


def settings(server: NatsServer, **others: Any) -> JetStreamSettings:
    chosen = {"servers": (server.url,), "monitors": (server.monitor,), "replicas": 1, "size_bytes": 64 * MIB, **others}
    return JetStreamSettings(**chosen)


def new_name() -> str:
    return f"test-{secrets.token_hex(4)}"


# --- what is refused when it is opened -----------------------------------------------------------------------------------


async def test_a_server_that_acknowledges_before_it_syncs_is_refused(tmp_path: Path) -> None:
    with NatsServer(tmp_path, sync_interval="2m") as careless, pytest.raises(BadSetting, match="sync_interval: always"):
        await JetStreamChannel.open(new_name(), settings(careless))


async def test_a_server_whose_messages_are_too_small_is_refused(tmp_path: Path) -> None:
    with NatsServer(tmp_path, max_payload="1MB") as narrow, pytest.raises(BadSetting, match="max_payload"):
        await JetStreamChannel.open(new_name(), settings(narrow))


async def test_a_copy_on_a_server_that_nobody_looked_at_is_refused(nats_server: NatsServer, tmp_path: Path) -> None:
    with NatsServer(tmp_path, name="another") as another, pytest.raises(BadSetting, match="only"):
        await JetStreamChannel.open(new_name(), settings(nats_server, monitors=(another.monitor,)))


async def test_a_stream_that_would_forget_by_itself_is_refused(nats_server: NatsServer) -> None:
    names = Names(new_name())
    connection = await nats.connect(nats_server.url)
    await connection.jetstream().add_stream(name=names.stream, subjects=[names.subject], max_age=60, storage="file")
    await connection.close()

    with pytest.raises(BadSetting, match=names.stream):
        await JetStreamChannel.open(names.channel, settings(nats_server))


async def test_a_channel_larger_than_the_servers_can_set_aside_is_refused(nats_server: NatsServer) -> None:
    with pytest.raises(BadSetting, match="max_file"):
        await JetStreamChannel.open(new_name(), settings(nats_server, size_bytes=1 << 50))


async def test_a_cluster_that_is_not_there_is_unavailable_within_the_timeout(nats_server: NatsServer) -> None:
    nobody = settings(nats_server, servers=("nats://127.0.0.1:1",), timeout_ms=300)

    with pytest.raises(Unavailable):
        await asyncio.wait_for(JetStreamChannel.open(new_name(), nobody), PATIENCE_S)


async def test_a_monitor_that_is_not_there_is_unavailable(nats_server: NatsServer) -> None:
    with pytest.raises(Unavailable, match="monitoring"):
        await JetStreamChannel.open(new_name(), settings(nats_server, monitors=("http://127.0.0.1:1",)))


@pytest.mark.parametrize("name", ["", "two words", "dotted.name", "star*", "x" * 65])
async def test_a_name_that_cannot_be_a_stream_is_refused(name: str, nats_server: NatsServer) -> None:
    with pytest.raises(BadName):
        await JetStreamChannel.open(name, settings(nats_server))


@pytest.mark.parametrize(
    "wrong", [{"servers": ()}, {"monitors": ()}, {"replicas": 2}, {"size_bytes": 20 * MIB}, {"window": 0}, {"reserve_bytes": -1}]
)
def test_settings_that_cannot_be_are_refused(wrong: dict[str, Any]) -> None:
    chosen = {"servers": ("nats://localhost",), "monitors": ("http://localhost:8222",)} | wrong

    with pytest.raises(BadSetting):
        JetStreamSettings(**chosen)


# --- other programs beside it --------------------------------------------------------------------------------------------


async def test_rule_1_two_programs_append_to_one_channel_and_both_read_the_same(nats_server: NatsServer) -> None:
    name = new_name()
    one = await JetStreamChannel.open(name, settings(nats_server))
    other = await JetStreamChannel.open(name, settings(nats_server))

    mine, theirs = await asyncio.gather(append_all(one, commands(100)), append_all(other, commands(100, 1001)))

    found = await read_up_to(one, 1, 200)
    assert sorted(receipt.entry for receipt in mine + theirs) == list(range(1, 201))
    assert found == await read_up_to(other, 1, 200)
    assert [command for _, command in found if command in commands(100)] == commands(100)
    await one.close()
    await other.close()


async def test_rule_6_of_two_snapshots_saved_at_once_one_is_whole(nats_server: NatsServer) -> None:
    name = new_name()
    one = await JetStreamChannel.open(name, settings(nats_server))
    other = await JetStreamChannel.open(name, settings(nats_server))
    await append_all(one, commands(10))
    await append_all(other, commands(10))

    answers = await asyncio.gather(
        one.save_snapshot(7, [b"one"] * 20), other.save_snapshot(8, [b"other"] * 20), return_exceptions=True
    )

    winners = [at for at, answer in zip((7, 8), answers, strict=True) if answer is None]
    snapshot = await one.load_snapshot()
    assert winners
    assert all(answer is None or isinstance(answer, Unavailable) for answer in answers)
    assert snapshot is not None
    assert snapshot.at in winners
    assert list(snapshot.chunks) == ([b"one"] if snapshot.at == 7 else [b"other"]) * 20
    await one.close()
    await other.close()


def tight(server: NatsServer) -> JetStreamSettings:
    sizes = {"size_bytes": MIB, "reserve_bytes": 64 * KIB, "upkeep_bytes": 64 * KIB}
    return settings(server, **sizes, appenders_max=1, window_bytes=1, window=1)


async def limit_of(server: NatsServer, name: str) -> int:
    connection = await nats.connect(server.url)
    info = await connection.jetstream().stream_info(Names(name).stream)
    await connection.close()
    return info.config.max_bytes or 0


async def test_rule_7_upkeep_has_room_although_others_have_filled_the_stream_to_its_own_limit(nats_server: NatsServer) -> None:
    name, wanted = new_name(), tight(nats_server)
    channel = await JetStreamChannel.open(name, wanted)
    stranger = await nats.connect(nats_server.url)
    with pytest.raises(nats.js.errors.APIError, match="maximum bytes"):
        while True:
            await stranger.jetstream().publish(Names(name).subject, bytes(16 * KIB))
    await stranger.close()

    receipt = await asyncio.wait_for(channel.append(bytes(32 * KIB), Purpose.UPKEEP), PATIENCE_S)

    assert receipt.entry == channel.durable
    assert await limit_of(nats_server, name) == wanted.stream_bytes_max + wanted.upkeep_bytes
    await channel.release(channel.durable + 1)
    assert await limit_of(nats_server, name) == wanted.stream_bytes_max
    await channel.close()


async def test_rule_7_the_limit_is_not_raised_for_ever_and_upkeep_is_said_to_be_blocked(nats_server: NatsServer) -> None:
    wanted = tight(nats_server)
    channel = await JetStreamChannel.open(new_name(), wanted)

    taken = await fill(channel, Purpose.UPKEEP, bytes(32 * KIB))

    assert wanted.stream_bytes_max < taken * 32 * KIB < wanted.raised_bytes_max
    await channel.release(channel.durable + 1)
    await asyncio.wait_for(channel.append(b"goes on", Purpose.EVENTS), PATIENCE_S)
    await channel.close()


@pytest.mark.parametrize("name_length", [14, 64])
async def test_the_bytes_a_command_takes_in_the_stream_are_known_beforehand(name_length: int, nats_server: NatsServer) -> None:
    """Otherwise what is told of shortage would change with every answer of the servers."""
    name = secrets.token_hex(32)[:name_length]
    channel = await JetStreamChannel.open(name, settings(nats_server))
    before = channel.pressure.free_bytes

    await append_all(channel, [b"", b"12345", bytes(KIB)])

    connection = await nats.connect(nats_server.url)
    info = await connection.jetstream().stream_info(Names(name).stream)
    assert before - channel.pressure.free_bytes == info.state.bytes
    await connection.close()
    await channel.close()


async def test_commands_that_wait_for_the_cluster_are_bounded(nats_server: NatsServer) -> None:
    channel = await JetStreamChannel.open(new_name(), settings(nats_server, waiting_bytes_max=100 * KIB))

    answers = await asyncio.gather(*[channel.append(bytes(10 * KIB)) for _ in range(12)], return_exceptions=True)

    assert [isinstance(answer, Receipt) for answer in answers[:10]] == [True] * 10
    assert [isinstance(answer, Blocked) for answer in answers[10:]] == [True] * 2
    await channel.close()


# --- servers that die ----------------------------------------------------------------------------------------------------


async def test_rule_2_appends_and_readers_go_on_by_themselves_when_the_server_is_killed_and_comes_back(tmp_path: Path) -> None:
    with NatsServer(tmp_path) as server:
        channel = await JetStreamChannel.open(new_name(), settings(server, timeout_ms=1_000))
        async with reading(channel, 1) as runs:
            before = await append_all(channel, commands(50))
            read = [entry async for entry in _next_entries(runs, 50)]

            server.kill()
            during = [channel.append(command) for command in commands(5, 51)]
            server.start()
            after = await asyncio.wait_for(asyncio.gather(*during), PATIENCE_S)

            read += [entry async for entry in _next_entries(runs, 5)]

        assert [receipt.entry for receipt in before + after] == list(range(1, 56))
        assert read == [Entry(number, command) for number, command in enumerate(commands(55), 1)]
        await channel.close()


async def _next_entries(runs: Any, count: int) -> Any:
    found = 0
    while found < count:
        for entry in await asyncio.wait_for(anext(runs), PATIENCE_S):
            found += 1
            yield entry


async def _append_until_taken(channel: JetStreamChannel, command: bytes) -> Receipt:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                return await channel.append(command)
            except (Unavailable, OutcomeUnknown):
                await asyncio.sleep(0.05)


async def test_rule_2_a_server_that_says_nothing_leaves_the_outcome_unknown_and_appends_go_on_when_it_speaks(
    tmp_path: Path,
) -> None:
    with NatsServer(tmp_path) as server:
        impatient = settings(server, timeout_ms=300, attempt_ms=100, append_timeout_ms=300)
        channel = await JetStreamChannel.open(new_name(), impatient)
        await channel.append(b"before")

        server.pause()
        for _ in range(4):  # three silences in a row make it turn to another server
            with pytest.raises((OutcomeUnknown, Unavailable)):
                await asyncio.wait_for(channel.append(b"during"), PATIENCE_S)
        server.resume()

        after = await _append_until_taken(channel, b"after")
        found = [command for _, command in await read_up_to(channel, 1, after.entry)]
        assert found[0] == b"before"
        assert found[-1] == b"after"
        assert set(found[1:-1]) <= {b"during", b"after"}
        await channel.close()


async def test_rule_2_what_was_sent_several_times_to_a_paused_server_stands_once(tmp_path: Path) -> None:
    with NatsServer(tmp_path) as server:
        channel = await JetStreamChannel.open(new_name(), settings(server, attempt_ms=50))
        await channel.append(b"before")
        sent = channel._connection.stats

        server.pause()
        before = sent["out_msgs"]
        appended = channel.append(b"during")
        await until(lambda: sent["out_msgs"] >= before + 3, "it was sent three times")
        server.resume()

        assert (await asyncio.wait_for(appended, PATIENCE_S)).entry == 2
        assert (await asyncio.wait_for(channel.append(b"after"), PATIENCE_S)).entry == 3
        assert [command for _, command in await read_up_to(channel, 1, 3)] == [b"before", b"during", b"after"]
        await channel.close()


async def test_rule_8_close_answers_what_waits_although_the_server_is_dead(tmp_path: Path) -> None:
    with NatsServer(tmp_path) as server:
        channel = await JetStreamChannel.open(new_name(), settings(server, timeout_ms=500))
        server.kill()
        futures = [channel.append(command) for command in commands(50)]

        await asyncio.wait_for(channel.close(), PATIENCE_S)

        answers = await asyncio.wait_for(asyncio.gather(*futures, return_exceptions=True), PATIENCE_S)
        assert all(isinstance(answer, HoldfastError) for answer in answers)
