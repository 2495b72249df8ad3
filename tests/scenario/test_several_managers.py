"""Several message managers in one process, a journal each: what a client makes of them (ADR 22)."""

from __future__ import annotations

import asyncio
import contextlib
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.client.connection import lanes
from holdfast.errors import Blocked, HoldfastError, TimedOut, Unreachable
from tests.contract.places import CuttingProxy
from tests.running_server import PATIENT, SETTINGS, running
from tests.waiting import until

TWO = replace(SETTINGS, managers=("m1", "m2"))


async def taken(incoming: holdfast.Incoming, count: int) -> list[object]:
    found = []
    for _ in range(count):
        event = await incoming.next(10)
        found.append(event.data)
        await event.confirm()
    return found


async def test_events_that_are_sent_before_their_place_is_known_keep_their_order(tmp_path: Path) -> None:
    async with running(tmp_path, TWO) as server, holdfast.connect(server.url) as client:
        await client.queue("first").send(0)
        second = client.queue("second")
        receipts = await asyncio.gather(*(second.send(number) for number in range(50)))

        assert {each.channel for each in receipts} == {"m2"}
        async with second.receive() as incoming:
            assert await taken(incoming, 50) == list(range(50))


async def test_every_channel_has_its_session_and_all_go_on_after_a_lost_link_without_loss_or_repetition(tmp_path: Path) -> None:
    patient = replace(PATIENT, managers=TWO.managers)
    async with running(tmp_path, patient) as server, CuttingProxy(server.port) as proxy, holdfast.connect(proxy.url) as client:
        queues = [client.queue(name) for name in "abcd"]

        async def flood(queue: holdfast.Queue) -> None:
            async with queue.pipeline() as pipeline:
                for number in range(2_000):
                    await pipeline.send(number)

        async def cut() -> None:
            for _ in range(5):
                await until(partial(has_grown, applied()), "more is applied")
                proxy.cut()

        def has_grown(before: int) -> bool:
            return applied() > before

        def applied() -> int:
            return sum(each.applied for each in server.node.managers.values())

        await asyncio.gather(*map(flood, queues), cut())

        for queue in queues:
            async with queue.receive() as incoming:
                assert await taken(incoming, 2_000) == list(range(2_000))


async def test_a_pattern_receives_from_all_managers_and_misses_no_new_topic(tmp_path: Path) -> None:
    async with running(tmp_path, TWO) as server, holdfast.connect(server.url) as client:
        async with client.subscribe("news.*", "pager") as incoming:
            channels = {(await client.topic(f"news.{number}").send(number)).channel for number in range(20)}
            assert channels == {"m1", "m2"}
            assert sorted(await taken(incoming, 20), key=str) == sorted(range(20), key=str)
        for number in range(20):
            await client.topic(f"news.{number}").send(number + 100)
    async with running(tmp_path, TWO) as server, holdfast.connect(server.url) as client:
        (described,) = [each for each in await client.subscriptions() if each["name"] == "pager"]
        assert described["waiting"] == 20
        async with client.subscribe("news.*", "pager") as incoming:
            assert sorted(await taken(incoming, 20), key=str) == sorted(range(100, 120), key=str)


async def test_a_flood_at_one_manager_does_not_keep_the_events_of_another_waiting(tmp_path: Path) -> None:
    async with running(tmp_path, TWO) as server, holdfast.connect(server.url) as client:
        flood, quiet = client.topic("t.flood"), client.topic("t.quiet")
        async with client.subscribe("t.*") as incoming:
            await flood.send_many(range(5_000))
            await quiet.send("here")
            seen = await taken(incoming, 5_001)
            assert seen.index("here") < 4_000


async def test_the_receivers_of_a_pattern_share_its_credit(tmp_path: Path) -> None:
    async with running(tmp_path, TWO) as server, holdfast.connect(server.url) as client:
        await client.create_subscription("t.*", "pool", shared=True)
        for number in range(20):
            await client.topic(f"t.{number}").send(number)
        async with client.subscribe("t.*", "pool", shared=True, credit=6) as first:
            await first.next(10)
            async with client.subscribe("t.*", "pool", shared=True, credit=100) as second:
                assert len(await taken(second, 14)) == 14  # all but the six that the first has
                with pytest.raises(TimedOut):
                    await second.next(0.1)


async def test_in_auto_mode_an_event_of_a_pattern_is_confirmed_when_the_next_is_asked_for(tmp_path: Path) -> None:
    async with running(tmp_path, TWO) as server, holdfast.connect(server.url) as client:
        await client.create_subscription("t.*", "s")
        for number in range(6):
            await client.topic(f"t.{number}").send(number)
        async with client.subscribe("t.*", "s", confirm="auto") as incoming:
            found = [(await incoming.next(10)).data for _ in range(6)]
        (left,) = [each for each in await client.subscriptions() if each["name"] == "s"]
        assert sorted(found) == list(range(6)) and left["waiting"] == 0


async def test_the_dead_of_all_managers_are_listed_replayed_and_purged_together(tmp_path: Path) -> None:
    async with running(tmp_path, TWO) as server, holdfast.connect(server.url) as client:
        for name in "abcd":
            await client.queue(name).send(name)
            async with client.queue(name).receive() as incoming:
                await (await incoming.next(10)).reject("no")
        dead = await client.dead.list()
        assert sorted((event.data, event.channel) for event in dead) == [("a", "m1"), ("b", "m2"), ("c", "m1"), ("d", "m2")]
        assert (await client.describe("_DMQ"))["waiting"] == 4

        for event in dead:
            assert (await client.dead.show(event.position, channel=event.channel)).data == event.data
        with pytest.raises(holdfast.Refused, match="say which is meant"):
            for event in dead:
                await client.dead.show(event.position)
        assert await client.dead.replay(selector="true") == 4
        assert await client.dead.list() == [] and [(await client.describe(name))["waiting"] for name in "abcd"] == [1] * 4


async def test_what_is_asked_by_events_is_carried_out_where_it_must_be(tmp_path: Path) -> None:
    async with running(tmp_path, TWO) as server, holdfast.connect(server.url) as client:
        admin = client.queue("_ADMIN")

        async def ask(action: str, **arguments: object) -> Any:
            return (await admin.request(arguments, type=f"holdfast.admin.{action}", timeout=10)).data

        for name in "abc":
            await ask("create", name=name, kind="topic")
        await ask("subscribe", topic="*", match="glob", name="all")
        for name in "abc":
            await client.topic(name).send(name)

        listed = [row["name"] for row in (await ask("list"))["value"]["destinations"]]
        assert [name for name in listed if not name.startswith("_temporary")] == ["_ADMIN", "_DMQ", "_LOG", "a", "b", "c"]
        assert [each["name"] for each in (await ask("status"))["value"]["managers"]] == ["m1", "m2"]
        (row,) = (await ask("subscriptions", topic="*", match="glob"))["value"]
        assert row["waiting"] == 3
        assert (await ask("unsubscribe", topic="*", match="glob", name="all"))["error"] == "not-empty"
        assert (await ask("subscriptions", topic="*", match="glob"))["value"] == [row]
        await ask("unsubscribe", topic="*", match="glob", name="all", force=True)
        assert (await ask("subscriptions", topic="*", match="glob"))["value"] == []


async def test_a_request_is_answered_across_managers(tmp_path: Path) -> None:
    async with running(tmp_path, TWO) as server, holdfast.connect(server.url) as client, holdfast.connect(server.url) as other:
        await client.queue("first").send(0)
        asking = asyncio.ensure_future(client.queue("second").request("ping", timeout=10))
        async with other.queue("second").receive() as incoming:
            event = await incoming.next(10)
            assert event.channel == "m2"
            assert (await event.reply("pong")).channel == (event.reply_to or "").partition("/")[0].removeprefix("_temporary.")
            await event.confirm()
        assert (await asking).data == "pong"


async def test_a_subscription_is_read_by_place_in_its_channel(tmp_path: Path) -> None:
    async with running(tmp_path, TWO) as server, holdfast.connect(server.url) as client:
        await client.queue("first").send(0)
        await client.create_topic("second")
        await client.create_subscription("second", "lake")
        await client.topic("second").send_many(range(100))
        reading = client.reading("second", "lake")
        async with reading.owner():
            extent = await reading.extent()
            assert sum([each.events async for each in reading.slices(extent.start, extent.end)]) == extent.events == 100
            assert await reading.confirm_up_to(extent.end) == 100


async def test_a_manager_that_stands_still_holds_up_what_is_its_own_and_nothing_else(tmp_path: Path) -> None:
    async with running(tmp_path, TWO) as server, holdfast.connect(server.url, timeout=2) as client:
        mine, other = client.queue("first"), client.queue("second")
        await mine.send(0)
        assert (await other.send(0)).channel == "m2"
        await server.node.managers["m2"].stop()

        assert (await other.send(1)).channel == "m2"  # accepted is durable: its manager need not be there
        async with holdfast.connect(server.url, timeout=0.5) as hasty:
            with pytest.raises(HoldfastError):
                await hasty.queue("second").receive().open()
        await mine.send(1)
        async with mine.receive() as incoming:
            assert await taken(incoming, 2) == [0, 1]


def other(manager: str) -> str:
    return next(name for name in TWO.managers if name != manager)


@pytest.mark.parametrize("is_home_there", [True, False])
async def test_a_manager_that_is_away_when_a_link_is_made_again_holds_up_its_own_sessions_and_not_the_link(
    tmp_path: Path, is_home_there: bool
) -> None:
    patient = replace(PATIENT, managers=TWO.managers)
    async with (
        running(tmp_path, patient) as server,
        CuttingProxy(server.port) as proxy,
        holdfast.connect(proxy.url, timeout=1) as client,
    ):
        places = {(await client.queue(name).send(0)).channel: name for name in ("first", "second")}
        home = client._opened().channel
        there, away = (home, other(home)) if is_home_there else (other(home), home)
        await server.node.managers[away].stop()
        proxy.cut()

        mine, loop = client.queue(places[there]), asyncio.get_running_loop()
        until_s, sent = loop.time() + 2.5, 0  # more than twice its timeout
        while loop.time() < until_s or not sent:
            with contextlib.suppress(Unreachable, Blocked):  # the small journal may be full
                await mine.send(1)
                sent += 1
        assert proxy.connections == 2
        with pytest.raises(Unreachable):
            await client.queue(places[away]).send(1)


async def test_places_that_were_forgotten_are_asked_for_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "KNOWN_MAX", 2)
    async with running(tmp_path, TWO) as server, holdfast.connect(server.url) as client:
        before = [(await client.queue(f"q{number}").send(1)).channel for number in range(6)]
        assert before == ["m1", "m2"] * 3
        assert before == [(await client.queue(f"q{number}").send(2)).channel for number in range(6)]


async def test_a_client_has_as_many_sessions_as_with_one_manager(tmp_path: Path) -> None:
    async with running(tmp_path, TWO) as server, holdfast.connect(server.url) as client, AsyncExitStack() as stack:
        sessions = [await stack.enter_async_context(client.session()) for _ in range(200)]
        for name in ("first", "second"):
            await asyncio.gather(*(each.queue(name).send(1) for each in sessions))
        await client.session().open()


# --- transactions and stages ---------------------------------------------------------------------------------------------


async def test_a_transaction_is_of_the_channel_of_what_it_touches_first(tmp_path: Path) -> None:
    async with running(tmp_path, TWO) as server, holdfast.connect(server.url) as client:
        await client.queue("first").send(0)
        await client.queue("second").send("asked")
        async with client.queue("second").receive() as incoming:
            event = await incoming.next(10)
            async with client.transaction() as transaction:
                await transaction.confirm(event)
                await transaction.queue("second").send("answered")
            assert (await incoming.next(10)).data == "answered"


async def test_a_transaction_that_touches_two_channels_happens_in_both_also_after_a_restart(tmp_path: Path) -> None:
    async with running(tmp_path, TWO) as server, holdfast.connect(server.url) as client:
        await client.create_queue("first")
        await client.create_queue("second")
        async with client.transaction() as transaction:
            await transaction.queue("first").send(1)
            await transaction.queue("second").send(2)
        assert [(each.destination, each.channel) for each in transaction.sent] == [("first", "m1"), ("second", "m2")]
    async with running(tmp_path, TWO) as server, holdfast.connect(server.url) as client:
        assert [(await client.describe(name))["waiting"] for name in ("first", "second")] == [1, 1]


async def test_a_stage_is_published_in_its_channel_once(tmp_path: Path) -> None:
    async with running(tmp_path, TWO) as server, holdfast.connect(server.url) as client:
        await client.queue("first").send(0)
        await client.create_queue("second")
        stage = client.stage("job-1")
        await stage.send("second", 1)
        staged = await stage.seal()
        assert staged.channel == "m2"
        assert [(await client.publish("job", 1, [staged])).is_new for _ in range(2)] == [True, False]
        assert (await client.describe("second"))["waiting"] == 1
