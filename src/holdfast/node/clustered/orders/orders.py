"""The orders of an operator, as the node that is asked carries them out: by itself, or by asking the nodes they concern.

`holdfast cluster takeover m1` ──▶ any node ──▶ Orders ──NodeAsked──▶ the node of the primary
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from holdfast.bus.bus import Bus
from holdfast.node.administration.cluster_arguments import ClusterOrder
from holdfast.node.clustered.orders.check import Checks
from holdfast.node.clustered.orders.drain import Drain
from holdfast.node.clustered.orders.node_calls import NodeCalls, Serve
from holdfast.node.clustered.orders.takeover import Takeovers
from holdfast.node.messages.start import Backup


class Orders:
    def __init__(self, whose: Backup, bus: Bus, takeovers: Takeovers, drain: Drain, checks: Checks) -> None:
        self._takeovers = takeovers
        self._drain = drain
        checking: dict[str, Serve] = {"digest": checks.serve_digest, "open_anew": checks.serve_open_anew}
        self._calls = NodeCalls(whose, bus, {"resign": takeovers.serve, "drain": drain.serve, **checking})
        self._orders: dict[str, Callable[[ClusterOrder], Awaitable[Any]]] = {
            "takeover": lambda asked: takeovers.order(self._calls, asked.manager, asked.node),
            "drain": lambda asked: drain.order(self._calls, asked.node, undo=False),
            "check": lambda asked: checks.order(self._calls),
            "undrain": lambda asked: drain.order(self._calls, asked.node, undo=True),
        }

    async def carry_out(self, asked: ClusterOrder) -> Any:
        """Return the answer; HoldfastError when it is refused, or cannot be done now."""
        return await self._orders[asked.order](asked)

    async def leave(self) -> None:
        """The node is stopped: others go on in its place."""
        await self._drain.leave()

    async def stop(self) -> None:
        await self._calls.stop()
