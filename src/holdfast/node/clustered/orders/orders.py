"""The orders of an operator, as the node that is asked carries them out: by itself, or by asking the nodes they concern.

`holdfast cluster takeover m1` ──▶ any node ──▶ Orders ──NodeAsked──▶ the node of the primary
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from holdfast.bus.bus import Bus
from holdfast.node.administration.cluster_arguments import ClusterOrder
from holdfast.node.clustered.orders.node_calls import NodeCalls
from holdfast.node.clustered.orders.takeover import Takeovers
from holdfast.node.messages.start import Backup


class Orders:
    def __init__(self, whose: Backup, bus: Bus, takeovers: Takeovers) -> None:
        self.takeovers = takeovers
        self._calls = NodeCalls(whose, bus, {"resign": takeovers.serve})
        self._orders: dict[str, Callable[[ClusterOrder], Awaitable[Any]]] = {"takeover": self._take_over}

    async def carry_out(self, asked: ClusterOrder) -> Any:
        """Return the answer; HoldfastError when it is refused, or cannot be done now."""
        return await self._orders[asked.order](asked)

    async def _take_over(self, asked: ClusterOrder) -> dict[str, Any]:
        return await self.takeovers.order(self._calls, asked.manager, asked.node)

    async def stop(self) -> None:
        await self._calls.stop()
