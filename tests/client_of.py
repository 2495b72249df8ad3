"""A client of a node that a test made itself, in the test's own loop."""

from __future__ import annotations

from typing import Any

import holdfast
from holdfast.node.node import Node
from holdfast.wire import in_process_link
from holdfast.wire.link import Link


class NodeDialer:
    """Links to this node. It is closed with the client if the client is its only one."""

    def __init__(self, node: Node, *, is_closed_with_client: bool) -> None:
        self.node = node
        self._is_closed_with_client = is_closed_with_client

    @property
    def knows_others(self) -> bool:
        return False

    @property
    def where(self) -> str:
        return "a node of this test"

    async def open(self) -> None:
        pass

    async def dial(self, timeout: float) -> Link:
        ours, theirs = in_process_link.pair()
        self.node.clients.accept(theirs)
        return ours

    async def close(self) -> None:
        if self._is_closed_with_client:
            await self.node.close()


def sibling_of(client: holdfast.Client) -> holdfast.Client:
    """Another client of the same node."""
    assert isinstance(client._dialer, NodeDialer)
    return client_of(client._dialer.node, is_only_one=False)


def client_of(node: Node, *, is_only_one: bool = True, **options: Any) -> holdfast.Client:
    client = holdfast.connect("memory:", **options)
    client._dialer = NodeDialer(node, is_closed_with_client=is_only_one)
    return client
