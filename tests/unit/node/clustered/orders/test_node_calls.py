"""Calls between nodes, over a bus that loses messages."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.bus.bus import InProcessBus
from holdfast.bus.message import NodeAnswered, NodeAsked
from holdfast.errors import BadSetting, Refused, Unavailable
from holdfast.node.clustered.orders import node_calls
from holdfast.node.clustered.orders.node_calls import NodeCalls
from holdfast.node.messages.start import Backup


class LossyBus(InProcessBus):
    """Loses the first message of each kind that it is told to lose."""

    def __init__(self, *lost: type[Any]) -> None:
        super().__init__()
        self._lost = list(lost)

    def publish(self, subject: str, message: Any) -> None:
        if type(message) in self._lost:
            self._lost.remove(type(message))
        else:
            super().publish(subject, message)


@pytest.fixture(autouse=True)
def _quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_calls, "AGAIN_S", 0.01)


async def called(bus: InProcessBus, action: str, timeout_s: float = 5.0) -> tuple[Any, int]:
    """The answer of node b to a, and how often it was served."""
    served = 0

    async def add(arguments: dict[str, Any]) -> int:
        nonlocal served
        served += 1
        return int(arguments["one"]) + int(arguments["other"])

    async def refuse(arguments: dict[str, Any]) -> None:
        raise BadSetting("no such thing", setting="thing")

    asker, answerer = NodeCalls(Backup("a", "a-1"), bus, {}), NodeCalls(Backup("b", "b-1"), bus, {"add": add, "refuse": refuse})
    try:
        return await asker.ask("b", action, {"one": 1, "other": 2}, timeout_s), served
    finally:
        await asker.stop()
        await answerer.stop()


@pytest.mark.parametrize("lost", [(), (NodeAsked,), (NodeAnswered,), (NodeAsked, NodeAnswered, NodeAnswered)])
async def test_a_call_is_answered_and_served_once_whatever_is_lost(lost: tuple[type[Any], ...]) -> None:
    assert await called(LossyBus(*lost), "add") == (3, 1)


async def test_a_refusal_comes_back_as_it_is() -> None:
    with pytest.raises(BadSetting, match="no such thing"):
        await called(InProcessBus(), "refuse")


async def test_a_call_that_a_node_does_not_know_is_refused() -> None:
    with pytest.raises(Refused, match="node b cannot 'fly'; upgrade it"):
        await called(InProcessBus(), "fly")


async def test_a_node_that_is_not_there_does_not_answer() -> None:
    asker = NodeCalls(Backup("a", "a-1"), InProcessBus(), {})
    with pytest.raises(Unavailable, match="node c did not answer"):
        await asker.ask("c", "add", {}, 0.05)
    await asker.stop()
