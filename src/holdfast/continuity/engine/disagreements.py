"""Disagreements: answers of servers that differ, told as events, one after the other.

    type         holdfast.domain.disagreement
    properties   domain, transaction
    data         transaction, place, is_read, given (who was first), digests by server, kinds: what is held against whom (26),
                 named: servers that differ without a majority, failed: servers that failed where another has answered

The pipeline `divergence` reads these, and no others, with `--type holdfast.domain.disagreement`.

Memory: WAITING_MAX that are not told yet; past it the oldest are counted and not told. A domain whose servers differ at every
answer tells so at the pace at which Holdfast takes it, and delays no request.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import Any

from holdfast.client.destination import Topic
from holdfast.continuity.engine.transactions.under_way import Transaction
from holdfast.continuity.machines.gathering import Decided
from holdfast.continuity.request import DISAGREEMENT, MEMBER
from holdfast.errors import HoldfastError

log = logging.getLogger("holdfast.continuity")

WAITING_MAX = 1_000
AGAIN_SECONDS = 1.0


class Disagreements:
    def __init__(self, domain: str, requests: Topic, disagreements: Topic) -> None:
        self._domain = domain
        self._requests = requests
        self._disagreements = disagreements
        self._waiting: deque[dict[str, Any]] = deque(maxlen=WAITING_MAX)
        self._more = asyncio.Event()

    def add(self, transaction: Transaction, decided: Decided) -> None:
        self._waiting.append(
            {
                "transaction": transaction.number,
                "place": transaction.place,
                "is_read": transaction.is_read,
                "given": decided.given,
                "digests": {server: digest.hex() for server, digest in sorted(decided.digests.items())},
                "kinds": dict(sorted(decided.kinds.items())),
                "named": list(decided.named),
                "failed": list(decided.failed),
            }
        )
        self._more.set()

    async def publish_for_ever(self) -> None:
        """Publish until cancelled."""
        while True:
            await self._more.wait()
            self._more.clear()
            while self._waiting:
                try:
                    await self._publish(self._waiting[0])
                except HoldfastError as problem:
                    log.info("%d disagreements are not told yet: %s", len(self._waiting), problem)
                    await asyncio.sleep(AGAIN_SECONDS)
                else:
                    self._waiting.popleft()

    async def _publish(self, told: dict[str, Any]) -> None:
        """Tell people and pipelines first; then the membership, which may remove a server, or have it rebuilt."""
        properties = {"domain": self._domain, "transaction": told["transaction"]}
        await self._disagreements.send(told, type=DISAGREEMENT, properties=properties)
        for server in () if told["is_read"] else told["failed"]:  # its state is not that of the others (continuity rule 4)
            reason = f"it failed at transaction {told['transaction']}, which another server has done"
            await self._requests.send({"kind": "rebuild", "server": server, "reason": reason}, type=MEMBER)
        change = {"kind": "disagreement", "transaction": told["transaction"], "answers": told["digests"]}
        await self._requests.send(change, type=MEMBER)
