"""Purging a queue over every place: what waits, is delayed or held is gone, and the queue goes on."""

from __future__ import annotations

import pytest

import holdfast
from holdfast.errors import AlreadyFinished, WrongKind
from tests.contract.places import name, server, url  # noqa: F401 (fixtures)


async def test_what_waits_is_delayed_or_held_is_gone_and_the_queue_goes_on(url: str, name: str) -> None:  # noqa: F811
    async with holdfast.connect(url) as client:
        queue = client.queue(name)
        await queue.send("held")
        async with queue.receive(credit=1) as incoming:
            held = await incoming.next()
            await queue.send_many(["waits", "waits"])
            await queue.send("later", delay_ms=3_600_000)

            assert await client.purge(name) == 4
            await queue.send("new")
            held.confirm()
            with pytest.raises(AlreadyFinished):
                await incoming.settled()

            event = await incoming.next()
            assert event.data == "new"
            event.confirm()

        assert (await client.describe(name))["waiting"] == 0
        assert await client.dead.list(queue=name) == []
        assert await client.purge(name) == 0


async def test_the_log_says_what_was_purged(name: str, caplog: pytest.LogCaptureFixture) -> None:  # noqa: F811
    async with holdfast.connect("memory:") as client:
        await client.queue(name).send_many(["one", "two"])
        await client.purge(name)

    assert f"'{name}' was purged of 2 events" in caplog.messages


async def test_a_topic_is_not_purged(url: str, name: str) -> None:  # noqa: F811
    async with holdfast.connect(url) as client:
        await client.create_topic(name)

        with pytest.raises(WrongKind, match="not a queue"):
            await client.purge(name)


def test_the_blocking_twin_purges_too(url: str, name: str) -> None:  # noqa: F811
    with holdfast.blocking.connect(url) as client:
        client.queue(name).send_many(["one", "two"])

        assert client.purge(name) == 2
