"""Events that a prepared transaction has locked, at a running message manager: delivered to nobody until its Final."""

from __future__ import annotations

import pytest

from holdfast.destination.command import Create, Decision, Detach, Final, Prepare, Settled
from holdfast.event import position
from holdfast.event.position import Ranges
from tests.unit.node.messages.test_backup import Nodes, open_nodes
from tests.waiting import until

TWO = ["orders", "other"]


async def prepared(nodes: Nodes) -> list[int]:
    """Ann holds three events and has locked the first; then her session ends, and bob attaches. The positions."""
    assert await (await nodes.open("a")).take_over()
    await nodes.open("b")
    await nodes.append(Create("q", "queue"))
    await nodes.attach("a")
    entries = [await nodes.send(mark) for mark in range(1, 4)]
    await until(lambda: len(nodes.delivered("a")) == 3, "ann has all")
    locked = Ranges.of((position.of(entries[0]), position.of(entries[0])))
    await nodes.append(Prepare("ann", "t", 0, TWO, "orders", [Settled("q", "", locked.to_bytes())]))
    await nodes.append(Detach("ann"))
    nodes.heard["a"].clear()
    await nodes.attach("a", session="bob")
    return [position.of(entry) for entry in entries]


@pytest.mark.parametrize("is_commit", [True, False])
async def test_what_is_locked_goes_to_nobody_when_its_holder_is_gone_until_the_transaction_is_decided(is_commit: bool) -> None:
    async with open_nodes() as nodes:
        first, second, third = await prepared(nodes)
        await until(lambda: nodes.delivered("a") == [second, third], "bob has what is not locked")

        await nodes.append(Final("ann", "t", ["early", *TWO], "orders", is_commit))  # of others: changes nothing
        await nodes.append(Final("ann", "t", TWO, "orders", is_commit))
        await nodes.equal()
        assert nodes.delivered("a") == [second, third], "the first participant has no decision"
        await nodes.append(Decision("ann", "t", TWO, is_commit))
        await nodes.append(Final("ann", "t", TWO, "orders", is_commit))
        last = await nodes.send(4)
        await until(lambda: position.of(last) in nodes.delivered("a"), "what came after the Final is delivered")

        expected = [second, third] + ([] if is_commit else [first]) + [position.of(last)]
        assert sorted(nodes.delivered("a")) == sorted(expected)


async def test_a_backup_that_takes_over_knows_what_is_locked() -> None:
    async with open_nodes() as nodes:
        first, second, third = await prepared(nodes)
        await until(lambda: nodes.delivered("a") == [second, third], "bob has what is not locked")

        assert await nodes.managers["b"].take_over()
        await nodes.attach("b", Ranges.of((second, second), (third, third)), session="bob")
        last = await nodes.send(4)
        await until(lambda: nodes.delivered("b") == [position.of(last)], "only what is new is delivered")
        await nodes.append(Decision("ann", "t", TWO, False))
        await nodes.append(Final("ann", "t", TWO, "orders", False))

        await until(lambda: nodes.delivered("b") == [position.of(last), first], "what was locked waits again")
