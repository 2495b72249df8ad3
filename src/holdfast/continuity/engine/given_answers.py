"""The answers that were given: published lazily in the topic, so that a retry gets the same one (continuity rule 4).

    given(key, server, digest)  gathered, GATHERED_MAX or every PAUSE_SECONDS, then one event in the topic

An engine that dies with a few unpublished ones leaves their retries as they were before this rule: any stored answer.
"""

from __future__ import annotations

import asyncio
import logging

from holdfast.client.destination import Topic
from holdfast.continuity.request import GIVEN
from holdfast.errors import HoldfastError

log = logging.getLogger("holdfast.continuity")

GATHERED_MAX = 128
PAUSE_SECONDS = 0.1
# While the topic cannot be written, the newest are kept.
KEPT_MAX = 10_000


class GivenAnswers:
    def __init__(self, requests: Topic) -> None:
        self._requests = requests
        self._gathered: list[tuple[str, str, str]] = []
        self._more = asyncio.Event()

    def add(self, key: str, server: str, digest: bytes) -> None:
        self._gathered.append((key, server, digest.hex()))
        self._more.set()

    async def publish_for_ever(self) -> None:
        """Publish until cancelled."""
        while True:
            await self._more.wait()
            await asyncio.sleep(PAUSE_SECONDS)
            await self.flush()

    async def flush(self) -> None:
        """Publish what was gathered. What cannot be published now is tried again later."""
        self._more.clear()
        while self._gathered:
            portion = self._gathered[:GATHERED_MAX]
            try:
                await self._requests.send({"given": portion}, type=GIVEN)
            except HoldfastError as problem:
                log.info("%d answers given are not recorded yet: %s", len(self._gathered), problem)
                del self._gathered[:-KEPT_MAX]
                self._more.set()
                return
            del self._gathered[: len(portion)]
