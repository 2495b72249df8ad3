"""The channel on JetStream on the loop that servers have: appends go on after their NATS server was killed."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
import uvloop

from holdfast.channel.channel import Purpose
from holdfast.channel.jetstream.jetstream_channel import JetStreamChannel
from holdfast.channel.jetstream.settings import MIB, JetStreamSettings
from tests.nats_server import NatsServer
from tests.waiting import until

pytestmark = pytest.mark.faults


def test_an_append_that_waits_for_a_dead_server_succeeds_once_it_is_back(tmp_path: Path) -> None:
    with NatsServer(tmp_path) as nats, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_append_while_it_is_dead(nats))


async def _append_while_it_is_dead(nats: NatsServer) -> None:
    settings = JetStreamSettings(servers=(nats.url,), monitors=(nats.monitor,), replicas=1, size_bytes=256 * MIB)
    channel = await JetStreamChannel.open("uvloop", settings)
    try:
        before = await channel.append(b"before", Purpose.EVENTS)
        nats.kill()
        waiting = asyncio.ensure_future(channel.append(b"while it is dead", Purpose.EVENTS))
        behind = asyncio.ensure_future(channel.append(b"behind", Purpose.EVENTS))
        await asyncio.to_thread(nats.start)

        await until(lambda: waiting.done() and behind.done(), "both are answered")

        assert before.entry < waiting.result().entry < behind.result().entry
    finally:
        await channel.close()
