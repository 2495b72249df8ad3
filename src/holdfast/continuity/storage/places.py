"""The places of a store, as a program hears of them: it calls the roll every second, and every place answers. It calls
more often while a place is about to be current, or too few are.

One temporary queue takes all the answers. After a lost server of Holdfast it is made anew.
"""

from __future__ import annotations

import asyncio
import logging

import msgspec

from holdfast.client.client import Client
from holdfast.continuity import roll_call
from holdfast.continuity.storage.definition import Definition
from holdfast.continuity.storage.machines.known_places import KnownPlaces, PlaceState
from holdfast.errors import Closed, HoldfastError

log = logging.getLogger("holdfast.continuity")

CALL_SECONDS = 1.0
HURRIED_SECONDS = 0.2
# After a lost server, the roll is called again this much later.
AGAIN_SECONDS = 0.2


class Places:
    def __init__(self, client: Client, definition: Definition) -> None:
        self.known = KnownPlaces()
        self._client = client
        self._definition = definition
        self._heard = asyncio.Event()

    def current(self, besides: str = "") -> list[PlaceState]:
        """The places that may be asked, by name."""
        now = asyncio.get_running_loop().time()
        return [each for name, each in self.known.current(now).items() if name != besides]

    def reachable(self, besides: str) -> list[PlaceState]:
        """The places that can give bytes by digest, current or not."""
        now = asyncio.get_running_loop().time()
        return [each for name, each in self.known.reachable(now).items() if name != besides]

    def is_catching_up(self, count: int) -> bool:
        """Whether so many places will be current soon, with those that apply what waits for them."""
        now = asyncio.get_running_loop().time()
        return len(self.known.current(now)) + len(self.known.catching_up(now)) >= count

    def fail(self, name: str) -> None:
        self.known.fail(name, asyncio.get_running_loop().time())

    async def until_current(self, count: int, seconds: float) -> bool:
        """Wait until so many places are current, at most so long; whether they are."""
        try:
            async with asyncio.timeout(seconds):
                while len(self.current()) < count:
                    self._heard.clear()
                    await self._heard.wait()
        except TimeoutError:
            return False
        return True

    async def run(self) -> None:
        """Call the roll until cancelled."""
        while True:
            try:
                await self._call_and_hear()
            except Closed:
                return
            except HoldfastError as problem:
                log.info("the places of file store %s are not heard for the moment: %s", self._definition.name, problem)
                await asyncio.sleep(AGAIN_SECONDS)

    async def _call_and_hear(self) -> None:
        replies = await self._client.temporary_queue()
        calling = asyncio.create_task(self._call(replies.name))
        try:
            async with replies.receive() as incoming:
                async for event in incoming:
                    self._hear(event.data)
                    await event.confirm()
        finally:
            calling.cancel()
            await asyncio.gather(calling, return_exceptions=True)

    async def _call(self, reply_to: str) -> None:
        topic = self._client.topic(roll_call.topic_of(self._definition.roll))
        while True:
            try:
                await topic.send({}, type=roll_call.QUESTION, reply_to=reply_to)
            except HoldfastError as problem:
                log.debug("the roll of file store %s is not called: %s", self._definition.name, problem)
            await asyncio.sleep(HURRIED_SECONDS if self._is_hurried() else CALL_SECONDS)

    def _is_hurried(self) -> bool:
        """Too few places are current, or one is about to be."""
        now = asyncio.get_running_loop().time()
        current = self.known.current(now)
        return len(current) < self._definition.places_min or len(current) < len(self.known.reachable(now))

    def _hear(self, told: object) -> None:
        try:
            state = msgspec.convert(told, PlaceState)
        except msgspec.ValidationError as problem:
            log.warning("a place of file store %s says what is not understood: %s", self._definition.name, problem)
            return
        self.known.tell([state], asyncio.get_running_loop().time())
        self._heard.set()
