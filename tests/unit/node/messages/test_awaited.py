"""After a takeover: what receivers may hold that do not come back goes to others, marked as redelivered (rule 3)."""

from __future__ import annotations

import pytest

from holdfast.bus.bus import message_manager_subject
from holdfast.bus.message import CreditGranted, Delivered
from holdfast.destination.command import Create, Detach, Introduce, Release
from holdfast.destination.command import decode as decode_command
from holdfast.event import position
from holdfast.event.position import Ranges
from tests.unit.node.messages.test_backup import MANAGER, Nodes, open_nodes
from tests.waiting import turn_loop, until


def _delivered(nodes: Nodes) -> list[tuple[int, bool]]:
    """The entries that the second node has delivered, and whether each was marked."""
    said = [each for each in nodes.heard["b"] if isinstance(each, Delivered)]
    return [(position.entry_of(each.first), each.is_returned) for told in said for each in told.slices]


async def _attach(nodes: Nodes, name: str, session: str, held: Ranges | None = None) -> None:
    """As `Nodes.attach`; credit is granted again once the receiver is attached."""
    await nodes.attach(name, held, session)
    await until(lambda: nodes.managers[name].applied == nodes.channel.durable, "it is attached")
    nodes.buses[name].publish(message_manager_subject(MANAGER), CreditGranted(session, 1, 100, 1 << 20))


async def _taken_over(nodes: Nodes) -> list[int]:
    """Ann and Bob hold an event each; a second node is primary, where Bob comes back, and Carl is new; a third event waits. Their
    entries."""
    first, second = await nodes.open("a"), await nodes.open("b")
    assert await first.take_over()
    await nodes.append(Create("q", "queue"))
    for session in ("ann", "bob", "carl"):
        await nodes.append(Introduce(session, f"node of {session}", 1))
    await _attach(nodes, "a", "ann")
    entries = [await nodes.send(1)]
    await until(lambda: len(nodes.delivered("a")) == 1, "ann has the first")
    await _attach(nodes, "a", "bob")
    entries.append(await nodes.send(2))
    await until(lambda: len(nodes.delivered("a")) == 2, "bob has the second")
    await nodes.managers.pop("a").stop()
    assert await second.take_over()
    entries.append(await nodes.send(3))
    await _attach(nodes, "b", "bob", Ranges.of((position.of(entries[1]), position.of(entries[1]))))
    await _attach(nodes, "b", "carl")
    await turn_loop(5)
    assert _delivered(nodes) == [], "nobody knows what ann holds"
    return entries


@pytest.mark.parametrize("how", ["its session is lost", "it does not come back"])
async def test_what_a_receiver_may_hold_that_does_not_come_back_goes_to_others_marked(how: str) -> None:
    async with open_nodes() as nodes:
        one, _, three = await _taken_over(nodes)
        deliverer = nodes.managers["b"].deliverer

        if how == "its session is lost":
            deliverer.detach_lost("ann", 1)
        else:
            deliverer.stop_waiting()

        # Bob holds the second. The third was placed after the takeover.
        await until(lambda: len(_delivered(nodes)) == 2, "others get what ann may have had")
        assert _delivered(nodes) == [(one, True), (three, False)]


async def test_a_receiver_whose_client_comes_by_a_later_link_meanwhile_is_not_detached() -> None:
    async with open_nodes() as nodes:
        one, *_ = await _taken_over(nodes)
        manager = nodes.managers["b"]
        await nodes.append(Introduce("ann", "another node", 2))

        manager.deliverer.detach_lost("ann", 1)
        await until(lambda: manager.applied == nodes.channel.durable, "all is applied")
        assert ("ann", 1) in [holder for holder, _ in manager.directory.queue(("q", "")).receivers]
        await _attach(nodes, "b", "ann", Ranges.of((position.of(one), position.of(one))))
        await until(lambda: _delivered(nodes), "the third is delivered")
        assert one not in [entry for entry, _ in _delivered(nodes)]


async def test_what_a_primary_releases_carries_its_epoch() -> None:
    async with open_nodes() as nodes:
        await _taken_over(nodes)
        at = nodes.channel.durable

        nodes.managers["b"].deliverer.stop_waiting()
        await until(lambda: nodes.channel.durable >= at + 2, "it is released and detached")

        said = [decode_command(each)[0] for each in await nodes.channel.fetch([at + 1, at + 2])]
        assert [made.epoch for made in said if isinstance(made, Release | Detach)] == [2, 2]
