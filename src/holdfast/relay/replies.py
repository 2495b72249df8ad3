"""Replies: answers to requests that passed the relay go back to where they were asked.

One durable queue takes them, `relay.NAME.replies`. The address of the asker stands in the correlation id (`reply_map`). A reply
is confirmed here when upstream has it; a crash in between sends it twice, and the asker takes the first. Where the asker is gone,
the reply is confirmed and counted. While an upstream cannot be reached, its replies wait.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

from holdfast.destination.name import is_temporary_topic
from holdfast.errors import HoldfastError, NoSuchDestination
from holdfast.relay.machines import reply_map

if TYPE_CHECKING:
    from holdfast.client.client import Client
    from holdfast.client.receiving.received_event import ReceivedEvent

log = logging.getLogger("holdfast.relay")

# Replies on their way.
UNDER_WAY_MAX = 64
AGAIN_S = 1.0


class Replies:
    def __init__(self, queue: str, local: Client, upstreams: Mapping[str, Client]) -> None:
        """`upstreams`: those that are connected, by name."""
        self.queue = queue
        self.passed = 0
        self.unheard = 0  # nobody waited for them any more
        self._local = local
        self._upstreams = upstreams
        self._under_way: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Pass replies for ever. While the local journal cannot be reached, they wait in it."""
        while True:
            try:
                await self._receive()
            except HoldfastError as problem:
                log.info("replies wait: %s", problem)
            await asyncio.sleep(AGAIN_S)

    async def _receive(self) -> None:
        await self._local.ensure_queue(self.queue)
        async with self._local.session(name="relay replies") as session, session.queue(self.queue).receive() as incoming:
            async for event in incoming:
                while len(self._under_way) >= UNDER_WAY_MAX:
                    await asyncio.wait(self._under_way, return_when=asyncio.FIRST_COMPLETED)
                task = asyncio.create_task(self._pass(event))
                self._under_way.add(task)
                task.add_done_callback(self._under_way.discard)

    async def _pass(self, event: ReceivedEvent) -> None:
        address = reply_map.read(event.correlation_id)
        if address is None:
            event.reject("its correlation id names nobody who asked through this relay")
            return
        upstream = self._upstreams.get(address.upstream)
        if upstream is None:
            event.release(AGAIN_S, f"upstream {address.upstream!r} is not connected")
            return
        try:
            await _send(upstream, event, address)
            self.passed += 1
        except NoSuchDestination:
            self.unheard += 1
            log.info("a reply came too late: who asked at %s is gone", address.upstream)
        except HoldfastError as problem:
            event.release(AGAIN_S, problem)
            return
        event.confirm()


async def _send(upstream: Client, event: ReceivedEvent, address: reply_map.ReturnAddress) -> None:
    is_topic = is_temporary_topic(address.reply_to)
    destination = upstream.topic(address.reply_to) if is_topic else upstream.queue(address.reply_to)
    if not event.is_large:
        await destination.send(event, correlation_id=address.correlation_id)
        return
    head = event.head
    async with event.open_stream() as stream:
        await destination.send_stream(
            stream, type=head.type, source=event.source, datacontenttype=head.datacontenttype, properties=head.properties,
            correlation_id=address.correlation_id,
        )  # fmt: skip
