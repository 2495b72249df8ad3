"""However many destinations there are, they can be listed (E4)."""

from __future__ import annotations

import asyncio

import holdfast
from holdfast.node.messages.answers import PAGE_DESTINATIONS


async def test_more_destinations_than_fit_one_answer_are_listed_each_once_in_order() -> None:
    names = [f"orders-with-quite-a-long-name.{number:04}" for number in range(2 * PAGE_DESTINATIONS + 7)]
    async with holdfast.connect("memory:") as client:
        for begin in range(0, len(names), 500):
            await asyncio.gather(*(client.create_queue(name) for name in names[begin : begin + 500]))

        listed = await client.destinations()

    assert [each["name"] for each in listed if not each["name"].startswith("_")] == names
