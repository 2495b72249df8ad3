"""Destinations that deduplicate, over every place a client can find its events at: the same source and id is stored once."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from typing import Any

import pytest

import holdfast
from holdfast.client.client import Client
from holdfast.errors import BadSetting, HoldfastError, LinkLost, NoReply, OutcomeUnknown
from tests.contract.places import CuttingProxy, name, server, url
from tests.server_process import ServerProcess

__all__ = ["name", "server", "url"]


async def taken(client: Client, name: str) -> list[Any]:
    """The data of all that waits, confirmed."""
    count = (await client.describe(name))["waiting"]
    async with client.queue(name).receive() as incoming:
        events = [await incoming.next(timeout=10) for _ in range(count)]
        for event in events:
            await event.confirm()
        await incoming.settled()
    return [event.data for event in events]


async def test_the_same_id_is_stored_once_and_receipted_with_the_position_of_the_first(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await client.create_queue(name, deduplicate="10m")
        queue = client.queue(name)

        first = await queue.send("once", id="invoice-7")
        again = await queue.send("twice", id="invoice-7")
        tried = await queue.try_send("thrice", id="invoice-7")
        given = await queue.send("an id of its own")
        said = await queue.send("the same id", id=given.id)

        assert (again.position, again.is_repeated, first.is_repeated) == (first.position, True, False)
        assert (tried.position, tried.is_repeated) == (first.position, True)
        assert (said.position, said.is_repeated, said.id) == (given.position, True, given.id)
        assert await taken(client, name) == ["once", "an id of its own"]


async def test_what_was_received_and_confirmed_is_still_a_repetition(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await client.create_queue(name, deduplicate=600)
        first = await client.queue(name).send(1, id="a")
        assert await taken(client, name) == [1]

        assert (await client.queue(name).send(1, id="a")).position == first.position
        assert (await client.describe(name))["waiting"] == 0


async def test_a_batch_repeats_in_part_and_each_event_has_its_own_receipt(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await client.create_queue(name, deduplicate="10m")

        first = await client.queue(name).send_many([holdfast.Event(data=n, id=str(n)) for n in range(5)])
        again = await client.queue(name).send_many([holdfast.Event(data=n, id=str(n)) for n in (8, 3, 4, 9, 0)])

        assert [each.is_repeated for each in again] == [False, True, True, False, True]
        assert [again[index].position for index in (1, 2, 4)] == [first[index].position for index in (3, 4, 0)]
        assert await taken(client, name) == [0, 1, 2, 3, 4, 8, 9]


async def test_a_program_that_is_started_again_repeats_under_the_same_id(server: ServerProcess, name: str) -> None:
    program = f"""
import holdfast.blocking
with holdfast.blocking.connect() as client:
    print(client.queue({name!r}).send(1, id="invoice-7").is_repeated)
"""
    async with holdfast.connect(server.url) as client:
        await client.create_queue(name, deduplicate="10m")

    said = [
        (await asyncio.to_thread(subprocess.run, [sys.executable, "-c", program], env={**os.environ, "HOLDFAST_URL": server.url},
                                 capture_output=True, text=True, check=True)).stdout
        for _ in range(2)
    ]  # fmt: skip

    assert said == ["False\n", "True\n"]


async def test_the_same_id_of_another_source_is_another_event(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await client.create_queue(name, deduplicate="10m")

        await client.queue(name).send(1, id="a", source="till-1")
        other = await client.queue(name).send(2, id="a", source="till-2")

        assert not other.is_repeated
        assert await taken(client, name) == [1, 2]


async def test_a_topic_deduplicates_for_all_its_subscriptions_and_patterns_and_each_topic_for_itself(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await client.create_topic(f"{name}.a", deduplicate="10m")
        await client.create_topic(f"{name}.b", deduplicate="10m")
        async with (
            client.subscribe(f"{name}.a", selector="n = 1") as chosen,
            client.subscribe(f"{name}.*") as everything,
        ):
            for topic in ("a", "a", "b"):
                await client.topic(f"{name}.{topic}").send(topic, id="1", properties={"n": 1})
            await client.topic(f"{name}.a").send("end", properties={"n": 1})

            assert [(await chosen.next(timeout=10)).data for _ in range(2)] == ["a", "end"]
            assert [(await everything.next(timeout=10)).data for _ in range(3)] == ["a", "b", "end"]


async def test_a_large_event_and_a_delayed_one_are_stored_once(url: str, name: str) -> None:
    large = bytes(600_000)
    async with holdfast.connect(url) as client:
        await client.create_queue(name, deduplicate="10m")
        queue = client.queue(name)

        film = await queue.send_stream(large, id="film")
        again = await queue.send_stream(large, id="film")
        later = await queue.send("later", id="later", delay_ms=20)
        sooner = await queue.send("later", id="later")

        assert (again.position, again.is_repeated, film.is_repeated) == (film.position, True, False)
        assert (sooner.position, sooner.is_repeated) == (later.position, True)
        async with queue.receive() as incoming:
            event = await incoming.next(timeout=10)
            async with event.open_stream() as content:
                assert len(await content.read()) == len(large)
            assert (await incoming.next(timeout=10)).data == "later"


async def test_a_transaction_leaves_out_what_is_a_repetition_and_commits_the_rest(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await client.create_queue(name, deduplicate="10m")
        await client.queue(name).send("before", id="a")

        async with client.transaction() as tx:
            await tx.queue(name).send("again", id="a")
            await tx.queue(name).send("new", id="b")
        repeated = await client.queue(name).send("committed before", id="b")

        assert repeated.is_repeated
        assert await taken(client, name) == ["before", "new"]


async def test_a_stage_is_published_without_what_is_a_repetition(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await client.create_queue(name, deduplicate="10m")
        await client.queue(name).send("before", id="a")
        stage = client.stage(name[-50:])
        await stage.send(name, "again", id="a")
        await stage.send(name, "new", id="b")

        published = await client.publish(name[-50:], 1, [await stage.seal()])

        assert (published.is_new, published.events) == (True, 1)
        assert await taken(client, name) == ["before", "new"]


async def test_a_dead_event_is_replayed_past_deduplication(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await client.create_queue(name, deduplicate="10m")
        await client.queue(name).send("mended", id="a", properties={"of": name})
        await client.queue(name).send_stream(bytes(600_000), id="film", properties={"of": name})
        async with client.queue(name).receive() as incoming:
            for _ in range(2):
                await (await incoming.next(timeout=10)).reject("not today")
            await incoming.settled()

        assert await client.dead.replay(selector=f"of = '{name}'") == 2

        assert (await client.describe(name))["waiting"] == 2
        assert (await client.queue(name).send("again", id="a")).is_repeated


async def test_what_is_set_and_remembered_is_shown_and_can_be_changed(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await client.create_queue(name, deduplicate="1.5h")
        await client.queue(name).send_many(range(3))

        shown = await client.describe(name)
        await client.configure(name, deduplicate=0)
        plain = await client.describe(name)

        assert (shown["deduplicate"], shown["remembered"], shown["deduplicate_shortened_to"]) == (5_400.0, 3, None)
        assert (plain["deduplicate"], "remembered" in plain) == (0.0, False)
        assert (await client.status())["deduplicate_shortened"] == []
        with pytest.raises(BadSetting, match="write it like 10m"):
            await client.create_queue(f"{name}-2", deduplicate="soon")


async def test_receipts_that_were_lost_with_the_link_say_what_was_repeated(server: ServerProcess, name: str) -> None:
    events = [holdfast.Event(data=number, id=str(number)) for number in range(3_000)]
    async with CuttingProxy(server.port) as proxy, holdfast.connect(proxy.url, name="till") as client:
        await client.create_queue(name, deduplicate="10m")
        first = await client.queue(name).send_many(events)

        async with client.queue(name).pipeline() as pipeline:
            for number, event in enumerate(events):
                await pipeline.send(event)
                if number % 500 == 499:
                    await client.destinations(timeout=20)
                    proxy.cut()

        assert proxy.connections > 3
        assert [each.position for each in pipeline.receipts] == [each.position for each in first]
        assert all(each.is_repeated for each in pipeline.receipts)
        assert (await client.describe(name))["waiting"] == len(events)


async def test_a_request_that_is_a_repetition_is_answered_to_whoever_asked_first(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await client.create_queue(name, deduplicate="10m")
        await client.queue(name).send("anyone?", id="question-1")

        with pytest.raises(NoReply, match=r"taken before.*ask with a new id"):
            await client.queue(name).request("anyone?", id="question-1", timeout=0.2)


# --- errors name the ids -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("id", [None, "invoice-7"])
async def test_whoever_does_not_know_the_outcome_of_a_send_is_told_its_id_and_repeats_it_safely(
    server: ServerProcess, name: str, id: str | None
) -> None:
    async with CuttingProxy(server.port) as proxy, holdfast.connect(proxy.url, name="till", timeout=0.5) as client:
        await client.create_queue(name, deduplicate="10m")
        await client.queue(name).send("before")
        proxy.is_deaf = True
        with pytest.raises(LinkLost) as lost:
            await client.queue(name).send("paid", id=id, timeout=0.1)

    async with holdfast.connect(server.url, name="till") as client:
        await client.queue(name).send("paid", id=lost.value.id)

        assert await taken(client, name) == ["before", "paid"]
    assert lost.value.id is not None and lost.value.id in lost.value.sentence
    assert list(lost.value.ids) == [lost.value.id] == [id or lost.value.id]


async def test_whoever_does_not_know_the_outcome_of_many_is_told_all_ids(server: ServerProcess, name: str) -> None:
    async with CuttingProxy(server.port) as proxy, holdfast.connect(proxy.url, name="till", timeout=0.5) as client:
        await client.create_queue(name, deduplicate="10m")
        await client.queue(name).send("before")
        proxy.is_deaf = True

        with pytest.raises(LinkLost, match=r"and 2 more, in error\.ids") as sent:
            await client.queue(name).send_many([1, holdfast.Event(data=2, id="two"), 3], timeout=0.2)
        with pytest.raises(OutcomeUnknown) as committed:
            async with client.transaction(timeout=0.2) as tx:
                await tx.queue(name).send("in a transaction", id="tx-1")
                await tx.queue(name).send("and another")

        ids = sent.value.ids
        assert (len(ids), ids[1], sent.value.id) == (3, "two", ids[0])
        assert (committed.value.id, len(committed.value.ids)) == ("tx-1", 2)
    async with holdfast.connect(server.url, name="till") as client:
        await client.queue(name).send_many([holdfast.Event(data=n, id=id) for n, id in zip((1, 2, 3), ids, strict=True)])

        assert sorted(data for data in await taken(client, name) if data in (1, 2, 3)) == [1, 2, 3]


async def test_a_request_without_a_reply_names_its_id(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        with pytest.raises(NoReply) as unanswered:
            await client.queue(name).request("anyone?", id="question-1", timeout=0.2)

        assert (unanswered.value.id, "question-1" in unanswered.value.sentence) == ("question-1", True)


async def test_an_error_of_something_that_sent_nothing_names_no_id() -> None:
    error: HoldfastError = LinkLost("look before you repeat it")

    assert isinstance(error, OutcomeUnknown)
    assert (error.id, list(error.ids)) == (None, [])
