"""A client whose link is lost goes on (B10): what was not receipted is sent again and counts once, what is held stays held."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path

import pytest

import holdfast
from holdfast.channel.journal.group_commit import GroupCommit
from holdfast.channel.journal.run import Draft, Outcome
from holdfast.client.client import Client
from holdfast.errors import LinkLost, OutcomeUnknown, Unreachable
from tests import effort
from tests.contract.places import CuttingProxy, server
from tests.server_process import ServerProcess, free_port
from tests.waiting import turn_loop, until

__all__ = ["server"]


async def until_linked(client: Client) -> None:
    """A question is answered only over a link; one that met the cut is asked again."""
    await client.destinations(timeout=20)


async def until_unlinked(client: Client) -> None:
    await until(lambda: not client.is_linked, "the client notices the cut")


async def test_a_pipeline_goes_on_through_cuts_and_every_event_counts_once(server: ServerProcess) -> None:
    """B10, rule 6."""
    count = effort.rounds(short=12_500, long=50_000)
    async with CuttingProxy(server.port) as proxy, holdfast.connect(proxy.url) as client:
        queue = client.queue("pipeline-through-cuts")
        async with queue.pipeline() as pipeline:
            for number in range(count):
                await pipeline.send(b"%d" % number)
                if number % 2_500 == 2_499:
                    await until_linked(client)
                    proxy.cut()

        assert proxy.connections > 4
        assert len(pipeline.receipts) == count
        async with queue.receive() as incoming:
            seen = []
            for _ in range(count):
                event = await incoming.next(timeout=10)
                seen.append(int(event.data))
                await event.confirm()
        assert seen == list(range(count))
        assert (await client.describe(queue.name))["waiting"] == 0


async def test_looking_is_repeated_when_the_link_was_lost(server: ServerProcess) -> None:
    async with CuttingProxy(server.port) as proxy, holdfast.connect(proxy.url) as client:
        await client.create_topic("looked-at")
        looks: list[Callable[[], Awaitable[object]]] = [
            partial(client.describe, "looked-at"),
            client.destinations,
            partial(client.subscriptions, "looked-at"),
            client.status,
        ]
        for look in looks:
            asyncio.get_running_loop().call_soon(proxy.cut)
            await look()
        assert proxy.connections > len(looks)


async def test_a_server_that_does_not_know_is_asked_again_and_not_pressed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def unknown(group_commit: GroupCommit, drafts: Sequence[Draft]) -> list[Outcome]:
        asked.append(len(drafts))
        return [OutcomeUnknown("the journal stopped while this was being written")] * len(drafts)

    async with holdfast.connect(f"file:{tmp_path}", timeout=1) as client:
        await client.create_queue("orders")
        with monkeypatch.context() as broken:
            broken.setattr(GroupCommit, "_timed_commit", unknown)
            with pytest.raises(OutcomeUnknown):
                await client.queue("orders").receive().open()

    assert 2 <= len(asked) <= 40


async def test_a_question_that_was_never_asked_says_why(server: ServerProcess) -> None:
    async with CuttingProxy(server.port) as proxy, holdfast.connect(proxy.url) as client:
        proxy.is_refusing = True
        proxy.cut()
        await until_unlinked(client)
        with pytest.raises(Unreachable) as raised:
            await client.destinations(timeout=0.2)

        assert isinstance(raised.value.__cause__, TimeoutError)
        proxy.is_refusing = False


async def test_single_sends_go_on_through_cuts_and_every_event_counts_once(server: ServerProcess) -> None:
    count = effort.rounds(short=32, long=200)
    async with CuttingProxy(server.port) as proxy, holdfast.connect(proxy.url) as client:
        queue = client.queue("sends-through-cuts")
        for number in range(count):
            if number % 7 == 3:
                asyncio.get_running_loop().call_soon(proxy.cut)
            await queue.send(number)

        async with queue.receive() as incoming:
            seen = Counter([(await incoming.next(timeout=10)).data for _ in range(count)])
        assert seen == Counter(range(count))


async def test_what_is_held_stays_held_through_a_cut_and_its_confirms_count(server: ServerProcess) -> None:
    async with CuttingProxy(server.port) as proxy, holdfast.connect(proxy.url) as client, holdfast.connect(server.url) as other:
        queue = client.queue("held-through-a-cut")
        await queue.send_many(range(10))
        async with queue.receive() as incoming:
            events = [await incoming.next(timeout=10) for _ in range(10)]
            async with other.queue(queue.name).receive() as rival:
                proxy.cut()
                await until_unlinked(client)
                for event in events[:4]:
                    await event.confirm()
                await until_linked(client)
                for event in events[4:]:
                    await event.confirm()
                await incoming.settled(timeout=10)

                assert (await client.describe(queue.name))["waiting"] == 0
                with pytest.raises(holdfast.Unavailable):
                    await rival.next(timeout=0.1)


async def test_events_come_again_after_a_cut_without_being_asked_for(server: ServerProcess) -> None:
    async with (
        CuttingProxy(server.port) as proxy,
        holdfast.connect(proxy.url) as client,
        holdfast.connect(server.url) as other,
        client.queue("comes-after-a-cut").receive(credit=4) as incoming,
    ):
        waiting = asyncio.get_running_loop().create_task(incoming.next(timeout=10))
        proxy.cut()
        await until_unlinked(client)
        await until_linked(client)

        await other.queue("comes-after-a-cut").send_many(range(20))

        assert (await waiting).data == 0
        assert [(await incoming.next(timeout=10)).data for _ in range(19)] == list(range(1, 20))


async def test_without_a_link_a_send_ends_in_time_with_nothing_sent(server: ServerProcess) -> None:
    async with CuttingProxy(server.port) as proxy, holdfast.connect(proxy.url) as client:
        queue = client.queue("nothing-sent")
        await queue.send("before")
        proxy.is_refusing = True
        proxy.cut()
        await until_unlinked(client)
        kept = asyncio.get_running_loop().create_task(queue.send("kept", timeout=20))

        with pytest.raises(Unreachable, match="nothing was sent"):
            await queue.send("withdrawn", timeout=0.05)
        with pytest.raises(Unreachable):
            await client.destinations(timeout=0.05)
        proxy.is_refusing = False

        assert (await kept).position > 0
        async with queue.receive() as incoming:
            assert [(await incoming.next(timeout=10)).data for _ in range(2)] == ["before", "kept"]
            with pytest.raises(holdfast.Unavailable):
                await incoming.next(timeout=0.1)


async def test_whoever_waits_for_events_hears_that_there_is_no_link_and_can_wait_on(server: ServerProcess) -> None:
    async with (
        CuttingProxy(server.port) as proxy,
        holdfast.connect(proxy.url, timeout=1) as client,
        client.queue("waits-on").receive() as incoming,
    ):
        proxy.is_refusing = True
        proxy.cut()
        with pytest.raises(Unreachable, match="still trying"):
            async for _ in incoming:
                pass

        proxy.is_refusing = False
        await until_linked(client)
        await client.queue("waits-on").send(1)
        assert (await incoming.next(timeout=10)).data == 1


async def test_no_server_at_all_is_said_when_the_client_is_opened() -> None:
    client = holdfast.connect(f"holdfast://127.0.0.1:{free_port()}", timeout=0.2)

    with pytest.raises(Unreachable, match="is the server running"):
        await client.open()


async def test_one_server_of_several_is_enough(server: ServerProcess) -> None:
    url = f"holdfast://127.0.0.1:{free_port()},127.0.0.1:{server.port}"

    async with holdfast.connect(url, timeout=10) as client:
        assert (await client.queue("one-of-several").send(1)).position > 0


async def test_a_question_that_was_under_way_when_the_link_was_lost_has_an_unknown_outcome(server: ServerProcess) -> None:
    async with CuttingProxy(server.port) as proxy, holdfast.connect(proxy.url) as client:
        asking = asyncio.get_running_loop().create_task(client.create_queue("under-way"))
        await turn_loop()
        proxy.cut()

        with pytest.raises(LinkLost, match="may have been done"):
            await asking
