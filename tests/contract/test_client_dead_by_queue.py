"""Dead events by the queue that gave them up, by the code of the reason and by when, over every place (B20)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import holdfast
from holdfast.errors import BadSetting
from tests.contract.places import name, server, url
from tests.contract.test_client_dead import dead_of, rejected

__all__ = ["name", "server", "url"]


async def test_dead_events_are_found_sent_again_and_thrown_away_by_their_queue_and_code(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await rejected(client, name, 3)
        await rejected(client, f"{name}-2", 2)
        await client.queue(name).send("left behind")
        await client.delete(name, force=True)

        listed = await client.dead.list(queue=name, code="rejected", since="1h")
        both = await client.dead.list(queue=name)
        few = await client.dead.list(queue=name, limit=1)
        counted = {(row["destination"], row["code"]): row["events"] for row in (await client.status())["dead"]}
        replayed = await client.dead.replay(queue=name, code="deleted", to=f"{name}-3")
        purged = await client.dead.purge(queue=name, selector="n < 2", since=timedelta(hours=1))
        left = await client.dead.list(queue=name)
        after = {(row["destination"], row["code"]): row["events"] for row in (await client.status())["dead"]}

        assert [event.data["n"] for event in listed] == [0, 1, 2]
        assert {event.dead[0].reason for event in listed} == {"no such article"}
        assert (len(both), len(few), replayed, purged) == (4, 1, 1, 2)
        assert [event.data for event in left] == [{"n": 2}]
        assert (counted[name, "rejected"], counted[name, "deleted"], counted[f"{name}-2", "rejected"]) == (3, 1, 2)
        assert (after[name, "rejected"], after.get((name, "deleted")), after[f"{name}-2", "rejected"]) == (1, None, 2)


async def test_dead_events_of_another_time_queue_or_code_are_left_alone(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await rejected(client, name)

        none = [
            await client.dead.list(queue=name, since=datetime.now(UTC) + timedelta(hours=1)),
            await client.dead.list(queue=name, code="expired"),
            await client.dead.list(queue=f"{name}-other"),
        ]
        purged = await client.dead.purge(queue=name, code="expired")

        assert none == [[], [], []]
        assert purged == 0 and len(await dead_of(client, name)) == 1


async def test_a_filter_of_dead_events_that_makes_no_sense_is_refused(url: str) -> None:
    async with holdfast.connect(url) as client:
        with pytest.raises(BadSetting, match="do not die of 'redeliverd'; the codes are: expired, redelivered"):
            await client.dead.list(code="redeliverd")
        with pytest.raises(BadSetting, match="is not a duration"):
            await client.dead.list(since="yesterday")
        with pytest.raises(BadSetting, match="no time zone"):
            await client.dead.purge(since=datetime(2020, 1, 1))
        with pytest.raises(BadSetting, match="say which dead events"):
            await client.dead.purge([1], queue="orders")
        with pytest.raises(BadSetting, match="say which dead events"):
            await client.dead.replay(everything=True, queue="orders")


async def test_the_counts_of_dead_events_are_the_same_after_a_restart(tmp_path: Path) -> None:
    url = f"file:{tmp_path / 'events'}"
    for _ in range(2):
        async with holdfast.connect(url) as client:
            if not await client.dead.list():
                await rejected(client, "orders", 3)
            counted = (await client.status())["dead"]

        assert counted == [{"destination": "orders", "match": "name", "code": "rejected", "events": 3}]
