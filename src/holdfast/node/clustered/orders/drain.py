"""Draining a node: its clients go elsewhere, and others lead what it led, while it runs on (ADR 29).

    drain ──▶ marked in heartbeats ──▶ no new links ──▶ resigns ──▶ clients are asked to leave ──▶ empty
    undo  ──▶ takes links again, and may succeed others

A drained node follows its channels and answers other nodes. It is empty when it has no links and leads nothing; `cluster status`
tells. A node that starts is not drained.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from holdfast.errors import Unavailable
from holdfast.node import supervision
from holdfast.node.clients.client_manager import ClientManager
from holdfast.node.clustered.heartbeat import Heart
from holdfast.node.clustered.orders.node_calls import NodeCalls
from holdfast.node.clustered.orders.takeover import Takeovers
from holdfast.node.clustered.roster import Roster

log = logging.getLogger("holdfast.server")

# A client ends its link when what it asked is answered, in a second at most. Links that are left after this are ended.
LEAVE_S = 2.0
LOOK_S = 0.02
# What nobody took over is handed over again after this.
AGAIN_S = 1.0
ORDER_S = 15.0


class Drain:
    def __init__(self, clients: ClientManager, heart: Heart, roster: Roster, takeovers: Takeovers) -> None:
        self._clients = clients
        self._heart = heart
        self._roster = roster
        self._takeovers = takeovers
        self._emptying: asyncio.Task[None] | None = None

    async def order(self, calls: NodeCalls, node: str, *, undo: bool) -> dict[str, Any]:
        """Drain a node, or take it back: begun when this returns. `cluster status` tells when the node is empty."""
        self._roster.check_node(node)
        answer: dict[str, Any] = await calls.ask(node, "drain", {"undo": undo}, ORDER_S)
        return answer

    async def serve(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """The call of another node: this one is drained."""
        await (self.undo() if arguments["undo"] else self.begin())
        return {"node": self._roster.own, "is_drained": self._heart.is_drained}

    async def begin(self) -> None:
        """Unavailable where no other node takes clients: they would have none."""
        if self._heart.is_drained:
            return
        if self._heart.has_clients and not self._roster.others_for_clients(self._heart.now_ms()):
            raise Unavailable(f"no other node takes clients now, so {self._roster.own} is not drained; start one first")
        await self._mark()
        self._emptying = supervision.start(self._empty(), "draining this node")

    async def _mark(self) -> None:
        log.warning("node %s is drained", self._roster.own)
        self._heart.is_drained = self._clients.is_drained = True
        self._heart.tell()
        await self._listen(False)

    async def _listen(self, is_taking: bool) -> None:
        if self._clients.listen is not None:
            await self._clients.listen(is_taking)

    async def _empty(self) -> None:
        while kept := await self._takeovers.resign_all():
            log.warning("node %s is not empty yet: %s", self._roster.own, "; ".join(kept.values()))
            await asyncio.sleep(AGAIN_S)
        await self._send_clients_elsewhere()
        log.warning("node %s is empty", self._roster.own)
        self._heart.tell()

    async def _send_clients_elsewhere(self) -> None:
        """Ask all to leave, and end the links of those that do not."""
        for link in list(self._clients.open):
            link.greeting.send_elsewhere(is_wish=False)
        for _ in range(round(LEAVE_S / LOOK_S)):
            if not self._clients.open:
                return
            await asyncio.sleep(LOOK_S)
        for link in list(self._clients.open):
            link.end(Unavailable(f"node {self._roster.own} is drained; linking to another"))

    async def undo(self) -> None:
        if not self._heart.is_drained:
            return
        await self._stop()
        log.warning("node %s is not drained any more", self._roster.own)
        self._heart.is_drained = self._clients.is_drained = False
        await self._listen(True)
        self._heart.tell()

    async def leave(self) -> None:
        """The node is stopped: hand over what it leads, and send its clients to others, if there are any. Once is enough."""
        await self._stop()
        if not self._heart.is_drained:
            await self._mark()
        for why in (await self._takeovers.resign_all()).values():
            log.warning("left without a planned takeover: %s", why)
        if self._roster.others_for_clients(self._heart.now_ms()):
            await self._send_clients_elsewhere()

    async def _stop(self) -> None:
        if self._emptying is not None:
            self._emptying.cancel()
            await asyncio.gather(self._emptying, return_exceptions=True)
            self._emptying = None
