"""The registration of an engine: an event in the topic that says where listeners answer, by link or by event.

    registered ──▶ listeners dial ──▶ answers come by link
                └─ a listener that cannot dial sends them to the engine's temporary queue

The queue goes with the engine's session: when that was given up, a new one is made, and the engine registers again. So it does
every RENEW_SECONDS while no listener is linked: listeners keep the engines that registered last, and many others that were killed
may have taken its place. An engine that ends says so, and nobody dials it any more.
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
RENEW_SECONDS = 5.0
# An engine that ends does not wait longer for a server of Holdfast that is away.
TELL_SECONDS = 2.0
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

    async def renew_for_ever(self, is_linked: Callable[[], bool]) -> None:
        """Register again while no listener is linked, until cancelled."""
        while True:
            await asyncio.sleep(RENEW_SECONDS)
            if not is_linked():
                await self._try({**self._told, "reply_to": self._replies.name})

    async def leave(self) -> None:
        """Say that the engine goes: without a start id nobody dials it."""
        await self._try({"engine": self._told["engine"], "start": ""})

    async def _try(self, told: dict[str, Any]) -> None:
        try:
            async with asyncio.timeout(TELL_SECONDS):
                await self._topic.try_send(told, type=ENGINE)
        except (HoldfastError, TimeoutError) as problem:
            log.info("engine %s could not tell of itself: %s", told["engine"], problem)

    async def _receive(self) -> None:
        async with self._replies.receive() as incoming:
            async for event in incoming:
                try:
                    self._take(str(event.properties.get("server", "")), _parts.decode(bytes(event.body)))
                except msgspec.DecodeError as problem:
                    log.warning("an answer by event cannot be read: %s", problem)
                await event.confirm()
