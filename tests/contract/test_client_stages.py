"""Stages over every place (D3, rule 10): seen by nobody until they are published, all at one moment, and once."""

from __future__ import annotations

import asyncio
import contextlib
import pickle

import pytest

import holdfast
import holdfast.blocking
from holdfast.client.assembly.stage import Staged
from holdfast.client.client import Client
from holdfast.errors import BadName, BadSetting, Closed, NotPublished, StageExists, TooLarge, WrongKind
from holdfast.event import batch
from holdfast.event.identifier import Counter
from tests.contract.places import name, server, url

__all__ = ["name", "server", "url"]


async def waiting(client: Client, queue: str) -> int:
    return int((await client.describe(queue))["waiting"])


async def taken(client: Client, queue: str) -> list[object]:
    found = []
    async with client.queue(queue).receive() as incoming:
        for _ in range(await waiting(client, queue)):
            event = await incoming.next(10)
            found.append(event.data)
            await event.confirm()
    return found


async def staged(client: Client, name: str, queue: str, *data: object) -> Staged:
    stage = client.stage(name)
    for each in data:
        await stage.send(queue, each)
    return await stage.seal()


async def test_what_is_staged_is_seen_by_nobody_until_it_is_published_in_the_order_of_the_stages(url: str, name: str) -> None:
    async with holdfast.connect(url) as client, client.subscribe(f"{name}-log") as audit:
        second = await staged(client, f"{name}-2", name, 3, 4)
        stage = client.stage(f"{name}-1")
        await stage.send(name, 1)
        await stage.send(f"{name}-log", "one", kind="topic", properties={"n": 1})
        await stage.send(name, 2)
        first = await stage.seal()
        assert (first.name, first.parts, first.events) == (f"{name}-1", 2, 3)
        assert await waiting(client, name) == 0

        published = await client.publish(name, 0, [first, second])

        assert published == (True, 5, 0)
        assert (await audit.next(10)).properties == {"n": 1}
        assert await taken(client, name) == [1, 2, 3, 4]


async def test_a_number_that_is_not_above_the_scopes_last_is_answered_as_a_repetition_and_its_stages_are_let_go(
    url: str, name: str
) -> None:
    async with holdfast.connect(url) as client:
        first = await staged(client, f"{name}-1", name, "once")
        assert await client.publish(name, 7, [first]) == (True, 1, 7)
        again, lower = [await staged(client, f"{name}-again-{number}", name, "twice") for number in (7, 3)]

        assert await client.publish(name, 7, [again]) == (False, 0, 7)
        assert await client.publish(name, 3, [lower]) == (False, 0, 7)

        with pytest.raises(NotPublished, match="not here"):
            await client.publish(name, 8, [again])
        assert await client.publish(f"{name}-other", 7, []) == (True, 0, 7), "each scope counts by itself"
        assert await taken(client, name) == ["once"]


async def test_a_publish_that_fails_its_checks_changes_nothing_and_may_be_said_again(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await client.create_queue(f"{name}-gone")
        one, two = await staged(client, f"{name}-1", name, 1), await staged(client, f"{name}-2", f"{name}-gone", 2)
        await client.delete(f"{name}-gone")

        with pytest.raises(NotPublished, match=r"no destination '.*-gone'"):
            await client.publish(name, 0, [one, two])
        with pytest.raises(NotPublished, match="part 2 of 2"):
            await client.publish(name, 0, [one._replace(parts=2)])
        with pytest.raises(NotPublished, match="1 parts of stage"):
            await client.publish(name, 0, [one._replace(parts=0)])
        with pytest.raises(NotPublished, match="named twice"):
            await client.publish(name, 0, [one, one])
        assert await waiting(client, name) == 0

        await client.create_queue(f"{name}-gone")
        assert await client.publish(name, 0, [one, two]) == (True, 2, 0)
        assert await taken(client, name) == [1]


async def test_a_dropped_stage_is_gone_and_dropping_what_is_not_there_is_fine(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        made = [await staged(client, f"{name}-{each}", name, each) for each in range(3)]

        await client.drop_stages([made[0].name, made[1].name, f"{name}-never"])
        await client.drop_stages([made[0].name])

        with pytest.raises(NotPublished, match="not here"):
            await client.publish(name, 0, made)
        assert await client.publish(name, 0, made[2:]) == (True, 1, 0)


async def test_a_stage_outlives_its_client_and_its_description_travels_to_another(url: str, name: str) -> None:
    async with contextlib.AsyncExitStack() as kept:
        if url.startswith("memory:"):  # which is there as long as somebody uses it
            await kept.enter_async_context(holdfast.connect(url))
        async with holdfast.connect(url) as stager:
            made = pickle.dumps(await staged(stager, name, name, "kept"))

        async with holdfast.connect(url) as publisher:
            assert await publisher.publish(name, 0, [pickle.loads(made)]) == (True, 1, 0)
            assert await taken(publisher, name) == ["kept"]


async def test_batches_that_are_made_already_are_staged_as_they_are_and_many_at_a_time(url: str, name: str) -> None:
    ids = Counter(1 << 64)
    async with holdfast.connect(url) as client:
        stage = client.stage(name)
        for number in range(60):
            heads, bodies = [b"\x80"] * 10, [b"%d" % (number * 10 + index) + bytes(20_000) for index in range(10)]
            made = batch.encode(heads, bodies, source="test", first_id=ids.take(10))
            await stage.send_batch(name, "queue", made, 10)
        with pytest.raises(BadSetting, match="not a batch of 3 events"):
            await stage.send_batch(name, "queue", made, 3)
        sealed = await stage.seal()

        assert (sealed.parts, sealed.events) == (60, 600)
        assert await client.publish(name, 0, [sealed]) == (True, 600, 0)
        found = await taken(client, name)
        assert [int(each.rstrip(b"\0")) for each in found if isinstance(each, bytes)] == list(range(600))


async def test_an_attempt_under_a_name_that_is_taken_is_refused(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        former = await staged(client, name, name, "of the first attempt")

        with pytest.raises(StageExists, match="another name"):
            await staged(client, name, name, "of the second")

        assert await client.publish(name, 0, [former]) == (True, 1, 0)


async def test_of_those_who_begin_under_one_name_at_the_same_moment_one_is_not_refused(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        attempts = [staged(client, name, name, number) for number in range(8)]
        outcomes = await asyncio.gather(*attempts, return_exceptions=True)

        (taken_number,) = [number for number, outcome in enumerate(outcomes) if not isinstance(outcome, StageExists)]
        sealed = outcomes[taken_number]
        assert isinstance(sealed, Staged)
        assert await client.publish(name, 0, [sealed]) == (True, 1, 0)
        assert await taken(client, name) == [taken_number]


async def test_refusals_come_before_anything_is_stored_and_say_what_to_do(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await client.create_topic(f"{name}-topic")
        for wrong in ("", "x" * 129, "line\nbreak"):
            with pytest.raises(BadName, match="printable"):
                client.stage(wrong)
        with pytest.raises(BadName, match="brackets"):
            await client.drop_stages(name)
        with pytest.raises(BadSetting, match="count up from 0"):
            await client.publish(name, -1, [])
        with pytest.raises(BadSetting, match="whole"):
            await client.publish(name, True, [])
        with pytest.raises(BadName, match="scope"):
            await client.publish("", 0, [])
        with pytest.raises(BadSetting, match="queue or a topic"):
            await client.stage(name).send(name, 1, kind="table")  # type: ignore[arg-type]
        stage = client.stage(name)
        await stage.send(f"{name}-topic", 1)
        with pytest.raises(WrongKind, match="is a topic"):
            await stage.seal()
        with pytest.raises(WrongKind, match="is a topic"):
            await stage.send(name, 1)
        with pytest.raises(TooLarge):
            await client.publish(name, 0, [Staged(f"{number}" * 20, 1, 1) for number in range(10_001)])


async def test_a_sealed_stage_takes_nothing_more(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        stage = client.stage(name)
        made = await stage.seal()

        with pytest.raises(Closed, match="sealed"):
            await stage.send(name, 1)

        assert (await stage.seal())[:3] == made[:3] == (name, 0, 0)
        assert await client.publish(name, 0, [made]) == (True, 0, 0)


async def test_many_stages_of_one_client_share_its_window_and_are_all_there(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        made = await asyncio.gather(*(staged(client, f"{name}-{each}", name, *[bytes(40_000)] * 10) for each in range(20)))

        assert await client.publish(name, 0, made) == (True, 200, 0)


def test_the_plain_twin_stages_and_publishes(url: str, name: str) -> None:
    with holdfast.blocking.connect(url) as client:
        stage = client.stage(f"{name}-1")
        stage.send(name, {"sku": 7})
        stage.send_batch(name, "queue", batch.encode([b"\x80"], [b"plain"], source="test", first_id=1 << 64), 1)

        assert client.publish(name, 0, [stage.seal()]) == (True, 2, 0)
        client.drop_stages([stage.name])

        with client.queue(name).receive() as incoming:
            assert [incoming.next(timeout=10).data for _ in range(2)] == [{"sku": 7}, b"plain"]
