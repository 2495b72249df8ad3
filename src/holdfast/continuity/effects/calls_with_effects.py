"""The calls of a listener's server, as the egress sees them: which run, how often each was made, and what their answers ask for.

    call begins ─▶ running ─▶ the server asks the egress … ─▶ answer ─▶ effects by rule, durable ─▶ call ends

An answer is recorded only after the effects that it asks for are in the queue: a listener that is killed before calls again, and
asks for the same ones.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Self

from holdfast.client.client import Client
from holdfast.continuity.answer import Answer
from holdfast.continuity.domain import Domain
from holdfast.continuity.effects.egress import EffectRefused, Egress
from holdfast.continuity.effects.egress_address import EgressAddress
from holdfast.continuity.request import Request
from holdfast.continuity.server_certificate import ServerCertificate
from holdfast.errors import Closed, HoldfastError

log = logging.getLogger("holdfast.continuity")

AGAIN_SECONDS = 0.2


class CallsWithEffects:
    """`is_certain` tells whether a call that begins is the first of its request; `is_replaying`, that the server is rebuilt;
    `place_of`, where a request stands."""

    def __init__(
        self,
        client: Client,
        domain: Domain,
        server: str,
        *,
        is_certain: Callable[[], bool],
        is_replaying: Callable[[], bool],
        stop_rebuild: Callable[[str], None],
        place_of: Callable[[str], int],
        address: tuple[str, int] | None = None,
        tls: ServerCertificate | None = None,
    ) -> None:
        self.running: dict[str, int] = {}
        self._failed: dict[str, int] = {}  # transactions without an answer yet, and how often they were called
        self._is_certain = is_certain
        self._is_replaying = is_replaying
        self.place_of = place_of
        self._egress = Egress(client, domain, server, self, stop_rebuild)
        self.address = EgressAddress(self._egress, *address, tls) if address is not None else None

    @property
    def is_replaying(self) -> bool:
        return self._is_replaying()

    async def open(self) -> Self:
        await self._egress.open()
        if self.address is not None:
            self.address.open()
        return self

    async def close(self) -> None:
        if self.address is not None:
            await self.address.close()
        await self._egress.close()

    async def call(self, request: Request, call: Callable[[], Awaitable[Answer]]) -> Answer:
        """Make a call. Its effects belong to its request while it runs."""
        number = request.transaction
        times = self._failed.get(number, 0 if self._is_certain() else 1) + 1
        self.running[number] = self._failed[number] = times
        try:
            answer = await call()
            await self._ask(request, answer)
            del self._failed[number]
            return answer
        finally:
            del self.running[number]
            self._egress.finish(number)

    async def _ask(self, request: Request, answer: Answer) -> None:
        while True:
            try:
                return await self._egress.answered(request.transaction, request.content.target, answer.head)
            except EffectRefused as refused:
                return log.warning("transaction %s: %s", request.transaction, refused)
            except Closed:
                raise
            except HoldfastError as problem:
                log.info("transaction %s: its effects are not asked for yet: %s", request.transaction, problem)
                self._egress.finish(request.transaction)  # numbered from 1 again
                await asyncio.sleep(AGAIN_SECONDS)
