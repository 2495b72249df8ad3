"""The registration of an engine: an event in the topic that says where listeners reach it, and one that it goes.

Listeners keep the ENGINES_MAX that registered last. An engine to which no listener is linked registers again every AGAIN_SECONDS:
so it comes back if many others that were killed have taken its place.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from holdfast.client.destination import Topic
from holdfast.continuity import request
from holdfast.errors import HoldfastError

log = logging.getLogger("holdfast.continuity")

AGAIN_SECONDS = 5.0
# An engine that ends does not wait longer for a server of Holdfast that is away.
TELL_SECONDS = 2.0


class Registration:
    def __init__(self, topic: Topic, name: str, start: str, site: str, address: str, reply_to: str, *, is_tls: bool) -> None:
        self._topic = topic
        self._name = name
        self._told = {"engine": name, "start": start, "site": site, "address": address, "reply_to": reply_to, "tls": is_tls}

    async def enter(self) -> None:
        await self._topic.send(self._told, type=request.ENGINE)

    async def renew_for_ever(self, is_linked: Callable[[], bool]) -> None:
        """Register again while no listener is linked, until cancelled."""
        while True:
            await asyncio.sleep(AGAIN_SECONDS)
            if not is_linked():
                await self._try(self._told)

    async def leave(self) -> None:
        """Say that the engine goes: without a start id nobody dials it."""
        await self._try({"engine": self._name, "start": ""})

    async def _try(self, told: dict[str, object]) -> None:
        try:
            async with asyncio.timeout(TELL_SECONDS):
                await self._topic.try_send(told, type=request.ENGINE)
        except (HoldfastError, TimeoutError) as problem:
            log.info("engine %s could not tell of itself: %s", self._name, problem)
