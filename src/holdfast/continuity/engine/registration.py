"""The registration of an engine: an event in the topic that says where listeners answer, by link or by event.

    registered ──▶ listeners dial ──▶ answers come by link
                └─ a listener that cannot dial sends them to the engine's temporary queue

The queue goes with the engine's session: when that was given up, a new one is made, and the engine registers again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Self

import msgspec

from holdfast.client.client import Client
from holdfast.client.destination import Queue, Topic
from holdfast.continuity.answer import Part
from holdfast.continuity.request import ENGINE
from holdfast.errors import HoldfastError

log = logging.getLogger("holdfast.continuity")

AGAIN_SECONDS = 1.0
_parts = msgspec.msgpack.Decoder(Part)


class Registration:
    def __init__(self, client: Client, topic: Topic, told: dict[str, Any], take: Callable[[str, Part], None]) -> None:
        """`told`: the engine's name, start id, site and address. `take` is handed the answers that come by event."""
        self._client = client
        self._topic = topic
        self._told = told
        self._take = take
        self._replies: Queue

    @classmethod
    async def open(cls, client: Client, topic: Topic, told: dict[str, Any], take: Callable[[str, Part], None]) -> Self:
        made = cls(client, topic, told, take)
        await made._register()
        return made

    async def _register(self) -> None:
        self._replies = await self._client.temporary_queue()
        await self._topic.send({**self._told, "reply_to": self._replies.name}, type=ENGINE)

    async def receive_for_ever(self) -> None:
        """Take answers until cancelled."""
        while True:
            try:
                await self._receive()
                return
            except HoldfastError as problem:
                log.info("answers by event do not come for the moment: %s", problem)
                await asyncio.sleep(AGAIN_SECONDS)
            try:
                await self._register()
            except HoldfastError as problem:
                log.info("the engine is not registered anew yet: %s", problem)

    async def _receive(self) -> None:
        async with self._replies.receive() as incoming:
            async for event in incoming:
                try:
                    self._take(str(event.properties.get("server", "")), _parts.decode(bytes(event.body)))
                except msgspec.DecodeError as problem:
                    log.warning("an answer by event cannot be read: %s", problem)
                await event.confirm()
