"""Wildcards with a real server: two thousand topics that come into being while somebody listens (B15); and across a kill."""

from __future__ import annotations

import asyncio
from pathlib import Path

import holdfast
from holdfast.client.client import Client
from holdfast.client.receiving.incoming import Incoming
from tests.server_process import ServerProcess

TOPICS = 2_000


async def names_of(incoming: Incoming, count: int) -> list[tuple[str, int]]:
    found = []
    for _ in range(count):
        event = await incoming.next(timeout=30)
        found.append((event.destination, event.data))
        await event.confirm()
    return sorted(found)


async def send_all(client: Client, numbers: range) -> None:
    """Each to a topic that did not exist before it."""
    await asyncio.gather(*(client.topic(f"alerts.{number}").send(number) for number in numbers))


async def test_none_of_two_thousand_topics_created_and_written_to_at_once_is_missed_b15(tmp_path: Path) -> None:
    expected = sorted((f"alerts.{number}", number) for number in range(TOPICS))
    with ServerProcess(tmp_path / "data") as server:
        async with (
            holdfast.connect(server.url) as listening,
            holdfast.connect(server.url) as first,
            holdfast.connect(server.url) as second,
            listening.subscribe("alerts.*") as glob,
            listening.subscribe(regex=r"alerts\.\d+") as regex,
        ):
            sending = asyncio.gather(send_all(first, range(0, TOPICS, 2)), send_all(second, range(1, TOPICS, 2)))

            found = tuple(await asyncio.gather(names_of(glob, TOPICS), names_of(regex, TOPICS)))
            await sending

    assert found == (expected, expected)


async def test_a_durable_wildcard_goes_on_after_the_server_was_killed_with_its_selector_and_the_names_of_its_topics(
    tmp_path: Path,
) -> None:
    with ServerProcess(tmp_path / "data") as server:
        async with holdfast.connect(server.url) as client:
            await client.create_subscription("alerts.>", "pager", selector="level > 1")
            for level in range(4):
                await client.topic(f"alerts.before.{level}").send(level, properties={"level": level})
        server.kill()
        server.start()

        async with holdfast.connect(server.url) as client:
            for level in range(4):
                await client.topic(f"alerts.after.{level}").send(level, properties={"level": level})
            async with client.subscribe("alerts.>", "pager", selector="level > 1") as incoming:
                found = await names_of(incoming, 4)

    assert found == [("alerts.after.2", 2), ("alerts.after.3", 3), ("alerts.before.2", 2), ("alerts.before.3", 3)]
