"""Several message managers in one process, a journal each: where destinations are, and what a client makes of it (ADR 22)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.errors import BadSetting, HoldfastError, NoSuchDestination, NotAJournal, Refused
from holdfast.event.position import Ranges
from holdfast.node.node import Node
from holdfast.wire.frame import Deliver, Failed, Goodbye, OpenSession, SessionOpened, Settle, Welcome
from tests.contract.places import CuttingProxy
from tests.raw_client import RawClient
from tests.running_server import PATIENT, SETTINGS, running, start
from tests.waiting import until

TWO = replace(SETTINGS, managers=("m1", "m2"))


async def taken(incoming: holdfast.Incoming, count: int) -> list[object]:
    found = []
    for _ in range(count):
        event = await incoming.next(10)
        found.append(event.data)
        await event.confirm()
    return found


# --- where destinations are ----------------------------------------------------------------------------------------------


async def test_each_manager_has_a_journal_of_its_own_and_all_is_there_after_a_crash(tmp_path: Path) -> None:
    server = await start(tmp_path, TWO)
    async with holdfast.connect(server.url) as client:
        before = [(await client.queue(name).send(name)).channel for name in "abcd"]
    await server.crash()

    assert sorted(each.name for each in (tmp_path / "managers").iterdir()) == ["m1", "m2"]
    async with running(tmp_path, TWO) as server, holdfast.connect(server.url) as client:
        assert before == [(await client.queue(name).send(name.upper())).channel for name in "abcd"] == ["m1", "m2", "m1", "m2"]
        for name in "abcd":
            async with client.queue(name).receive() as incoming:
                assert await taken(incoming, 2) == [name, name.upper()]


async def test_a_table_of_places_that_was_lost_is_made_again(tmp_path: Path) -> None:
    async with running(tmp_path, TWO) as server, holdfast.connect(server.url) as client:
        before = [(await client.queue(name).send(1)).channel for name in "abc"]
    (tmp_path / "places").unlink()

    async with running(tmp_path, TWO) as server, holdfast.connect(server.url) as client:
        assert [(await client.queue(name).send(2)).channel for name in "cba"] == before[::-1]


async def test_a_place_without_a_destination_is_completed_by_whoever_uses_the_name(tmp_path: Path) -> None:
    tmp_path.joinpath("places").write_text('["orders","m2"]\n')

    async with running(tmp_path, TWO) as server, holdfast.connect(server.url) as client:
        await client.create_queue("invoices")
        assert (await client.queue("orders").send(1)).channel == "m2"


async def test_a_rule_places_new_destinations(tmp_path: Path) -> None:
    ruled = replace(TWO, placement=(("eu.>", "m2"), ("**", "m1")))

    async with running(tmp_path, ruled) as server, holdfast.connect(server.url) as client:
        assert [(await client.queue(name).send(1)).channel for name in ("eu.a", "us.a", "eu.b", "us.b")] == ["m2", "m1"] * 2


async def test_a_folder_is_opened_as_it_was_made(tmp_path: Path) -> None:
    three = replace(SETTINGS, managers=("m1", "m2", "m3"))
    for number, (made, opened) in enumerate(((SETTINGS, TWO), (TWO, SETTINGS), (TWO, three), (three, TWO))):
        folder = tmp_path / str(number)
        folder.mkdir()
        await (await Node.open(folder, made)).close()
        with pytest.raises(NotAJournal, match="open it as it was made"):
            await Node.open(folder, opened)


@pytest.mark.parametrize("managers", [("m1",), ("m1", "m1"), ("m1", "M2"), ("m1", "a/b"), ("m1", "")])
def test_names_that_are_none_for_managers_are_refused(managers: tuple[str, ...]) -> None:
    with pytest.raises(BadSetting, match="are not two or more different names"):
        replace(SETTINGS, managers=managers)


# --- what a client makes of it -------------------------------------------------------------------------------------------


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
            assert (await event.reply("pong")).channel == "m1"
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


async def test_a_transaction_that_touches_two_channels_is_refused_and_nothing_of_it_happens(tmp_path: Path) -> None:
    async with running(tmp_path, TWO) as server, holdfast.connect(server.url) as client:
        await client.create_queue("first")
        await client.create_queue("second")
        with pytest.raises(Refused, match=r"a transaction is of one message manager: 'second' is at 'm2', and .* at 'm1'"):
            async with client.transaction() as transaction:
                await transaction.queue("first").send(1)
                await transaction.queue("second").send(2)
        assert [(await client.describe(name))["waiting"] for name in ("first", "second")] == [0, 0]


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
        with pytest.raises(Refused, match="a stage is at one message manager"):
            other = client.stage("job-2")
            await other.send("second", 1)
            await other.send("first", 1)
            await other.seal()


# --- who knows nothing of channels, and who says the wrong one -----------------------------------------------------------


async def test_a_client_of_before_uses_what_is_at_the_first_manager_and_is_refused_the_rest(tmp_path: Path) -> None:
    async with running(tmp_path, TWO) as server, holdfast.connect(server.url) as client:
        await client.create_queue("first")
        await client.create_queue("second")
        older = holdfast.connect(server.url)
        async with older:
            session = older._opened()
            session.lanes = None  # it does not ask where anything is

            assert (await older.queue("first").send(1)).channel == "m1"
            with pytest.raises(NoSuchDestination, match="not at message manager 'm1' but at 'm2'"):
                await older.queue("second").send(1)


async def test_a_session_at_a_manager_that_is_not_there_is_refused(tmp_path: Path) -> None:
    async with running(tmp_path, TWO) as server:
        raw = RawClient(server.node)
        opened = await raw.greet()
        assert opened.channel == "m1"
        assert (await raw.hear(Welcome))[0].channels == ["m1", "m2"]

        raw.say(OpenSession(7, channel="m9"), session=2)
        raw.say(OpenSession(8, channel="m2"), session=3)
        (refused,) = await raw.hear(Failed)
        assert (refused.token, refused.sentence) == (7, "there is no message manager 'm9' here; there is m1, m2")
        second = (await raw.hear(SessionOpened, 2))[1]
        assert (second.channel, second.incarnation) == ("m2", server.node.managers["m2"].channel.id)


async def test_a_verdict_on_positions_of_another_channel_ends_the_link_and_decides_nothing(tmp_path: Path) -> None:
    async with running(tmp_path, TWO) as server, holdfast.connect(server.url) as client:
        await client.queue("q").send("mine")
        raw = RawClient(server.node)
        await raw.greet()
        await raw.receive("q")
        (delivered,) = await raw.hear(Deliver)
        assert delivered.channel == "m1"

        first = delivered.slices[0].first
        raw.say(Settle(9, 1, "confirm", Ranges.of((first, first)).to_bytes(), channel="m2"))
        await raw.until_lost()

        assert "these positions are of channel 'm2', and the session of 'm1'" in raw.of(Goodbye)[0].sentence
        async with client.queue("q").receive() as incoming:
            assert await taken(incoming, 1) == ["mine"]


async def test_every_action_says_what_is_wrong_over_several_managers_too(tmp_path: Path) -> None:
    async with running(tmp_path, TWO) as server, holdfast.connect(server.url) as client:
        for refused in (client.describe("nowhere"), client.delete("nowhere"), client.purge("nowhere")):
            with pytest.raises(HoldfastError, match="nowhere"):
                await refused
