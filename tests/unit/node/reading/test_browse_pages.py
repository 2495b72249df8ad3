"""Browsing what waits, where some of it was carried forward in the channel (A3, B9)."""

from __future__ import annotations

import pytest

from holdfast.bus.message import BrowseAsked
from holdfast.destination import command
from holdfast.event import position
from holdfast.node.node import Node
from holdfast.node.reading.browse_pages import BrowsePages
from tests.raw_client import fill
from tests.running_server import SETTINGS


@pytest.mark.parametrize("carried", [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)])
async def test_a_browser_with_a_selector_shows_what_was_carried_forward_too(carried: tuple[int, ...]) -> None:
    node = await Node.in_memory(SETTINGS)
    await node.messages.wait_until_primary()
    await fill(node, 3)
    await node.messages.until_applied(node.channel.durable)
    directory = node.messages.directory
    entries = list(directory.backlog(("q", "")).entries_between(1, 1 << 40))
    for index in carried:
        (found,) = await node.channel.fetch([entries[index]])
        batch = bytes(command.decode(found)[1])
        moved = command.Carried(directory.epoch, [entries[index]], [len(batch)], [], [0])
        receipt = await node.channel.append(command.encode(moved, batch))
        await node.messages.until_applied(receipt.entry)

    asked = BrowseAsked("", 0, "q", "", 0, 10, "TRUE")
    page = await BrowsePages(directory, node.channel).page(asked)

    assert [position.entry_of(each.first) for each in page.slices] == entries
    assert page.is_end or page.cursor
    await node.close()
