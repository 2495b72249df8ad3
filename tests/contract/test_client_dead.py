"""Dead events over every place a client can find its events at (B20): why each died, and what can be done with it."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

import holdfast
from holdfast.client.client import Client
from holdfast.client.reading.browser import BrowsedEvent
from holdfast.errors import BadName, BadSetting, NoSuchPosition, TimedOut
from tests.contract.places import name, server, url
from tests.waiting import until

__all__ = ["name", "server", "url"]


async def rejected(client: Client, name: str, count: int = 1, reason: str | Exception = "no such article") -> None:
    """So many events that a recipient of the queue has refused."""
    async with client.queue(name).receive() as incoming:
        for number in range(count):
            await client.queue(name).send({"n": number}, type="order", properties={"n": number, "of": name}, subject="s")
        for _ in range(count):
            await (await incoming.next(timeout=10)).reject(reason)


async def dead_of(client: Client, name: str) -> list[BrowsedEvent]:
    return [event for event in await client.dead.list() if event.destination == name]


async def until_dead(client: Client, name: str) -> BrowsedEvent:
    async with asyncio.timeout(10):
        while not (found := await dead_of(client, name)):  # asking is a round trip: others have their turn
            pass
    return found[0]


# --- one test per reason ---------------------------------------------------------------------------------------------


async def test_a_rejected_event_is_dead_with_its_original_destination_reason_deliveries_and_time_b20(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await rejected(client, name)

        (event,) = await dead_of(client, name)

        (death,) = event.dead
        assert death[:5] == (name, None, "rejected", "no such article", 1)
        assert death.when is not None and abs((datetime.now(UTC) - death.when).total_seconds()) < 60
        assert (event.data, event.type, event.subject, event.destination) == ({"n": 0}, "order", "s", name)


async def test_an_event_delivered_too_often_is_dead_as_redelivered_b20(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await client.create_queue(name, redelivery_limit=1)
        await client.queue(name).send("again")
        async with client.queue(name).receive() as incoming:
            for _ in range(2):
                await (await incoming.next(timeout=10)).release()
            await incoming.settled()
            event = await until_dead(client, name)

        assert [(death.code, death.deliveries) for death in event.dead] == [("redelivered", 2)]


async def test_an_expired_event_is_dead_as_expired_b20(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await client.queue(name).send("brief", ttl_ms=1)
        sent = time.time()
        await until(lambda: time.time() > sent + 0.01, "it has expired")
        async with client.queue(name).receive():
            event = await until_dead(client, name)

        assert [death.code for death in event.dead] == ["expired"]


async def test_what_waits_in_a_queue_that_is_deleted_is_dead_as_deleted_b20(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await client.queue(name).send("left behind")
        await client.delete(name, force=True)

        (event,) = await dead_of(client, name)

        assert [(death.code, death.when is not None) for death in event.dead] == [("deleted", True)]


async def test_an_event_whose_destination_is_gone_before_it_comes_is_dead_as_no_destination_b20(name: str) -> None:
    """An answer to somebody who is not there: nobody else can send to what does not exist."""
    async with holdfast.connect("memory:") as client:
        await client.queue("_ADMIN").send({}, type="holdfast.admin.status", reply_to="nobody")

        event = await until_dead(client, "nobody")

        assert [(death.code, death.reason) for death in event.dead] == [("no-destination", "no such destination")]


async def test_an_event_given_up_by_two_subscriptions_is_dead_once_with_both_deaths_b20(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        for subscription in ("audit", "pager"):
            async with client.topic(name).subscribe(subscription) as incoming:
                if subscription == "audit":
                    await client.create_subscription(name, "pager")
                    await client.topic(name).send("alarm")
                await (await incoming.next(timeout=10)).reject(f"{subscription} does not want it")

        (event,) = await dead_of(client, name)

        assert {(death.destination, death.subscription, death.reason) for death in event.dead} == {
            (name, "audit", "audit does not want it"),
            (name, "pager", "pager does not want it"),
        }


async def test_an_event_can_be_rejected_with_the_exception_that_came_of_it(url: str, name: str) -> None:
    def work() -> None:
        raise ValueError("sku 7 is not known")

    async with holdfast.connect(url) as client:
        try:
            work()
        except ValueError as problem:
            await rejected(client, name, reason=problem)

        (event,) = await dead_of(client, name)

        said = event.dead[0].reason
        assert said.startswith("ValueError: sku 7 is not known\n")
        assert "in work" in said and 'raise ValueError("sku 7 is not known")' in said


async def test_a_receiver_of_the_dead_sees_why_they_died_too(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await rejected(client, name, 3)
        async with client.queue("_DMQ").receive(selector=f"of = '{name}'") as incoming:
            events = [await incoming.next(timeout=10) for _ in range(3)]

            assert [event.dead[0].reason for event in events] == ["no such article"] * 3
            assert [event.data["n"] for event in events] == [0, 1, 2]
            for event in events:
                await event.confirm()

        assert await dead_of(client, name) == []


async def test_any_other_event_has_no_deaths(name: str) -> None:
    async with holdfast.connect("memory:") as client, client.queue(name).receive() as incoming:
        await client.queue(name).send("alive")

        assert (await incoming.next(timeout=10)).dead == ()


# --- bringing them back ----------------------------------------------------------------------------------------------


async def test_a_replayed_event_is_delivered_once_as_the_same_event_b20(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await rejected(client, name)
        (dead,) = await dead_of(client, name)

        assert await client.dead.replay([dead.position], channel=dead.channel) == 1

        async with client.queue(name).receive() as incoming:
            event = await incoming.next(timeout=10)
            same = ("id", "source", "type", "time", "subject", "data", "properties", "priority", "group", "datacontenttype")
            assert {field: getattr(event, field) for field in same} == {field: getattr(dead, field) for field in same}
            with pytest.raises(TimedOut):
                await incoming.next(timeout=0.1)
            await event.confirm()
        assert await dead_of(client, name) == []
        with pytest.raises(NoSuchPosition, match="no dead event waits at position"):
            await client.dead.replay([dead.position], channel=dead.channel)


async def test_many_are_replayed_in_their_order_to_another_destination_with_a_selector(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await rejected(client, name, 40)
        told: list[int] = []

        replayed = await client.dead.replay(selector=f"of = '{name}' AND n >= 5", to=name + ".retry", progress=told.append)

        assert (replayed, told) == (35, [16, 32, 35])
        async with client.queue(name + ".retry").receive() as incoming:
            assert [(await incoming.next(timeout=10)).data["n"] for _ in range(35)] == list(range(5, 40))
        assert [event.data["n"] for event in await dead_of(client, name)] == list(range(5))


async def test_two_who_replay_the_same_events_at_once_bring_back_each_once(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await rejected(client, name, 30)
        selector = f"of = '{name}'"

        counts = await asyncio.gather(*(client.dead.replay(selector=selector) for _ in range(3)))

        assert sum(counts) == 30
        async with client.queue(name).receive() as incoming:
            assert sorted([(await incoming.next(timeout=10)).data["n"] for _ in range(30)]) == list(range(30))
            with pytest.raises(TimedOut):
                await incoming.next(timeout=0.1)


async def test_what_expired_has_no_end_to_its_life_once_it_is_replayed(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await client.queue(name).send("brief", ttl_ms=1)
        sent = time.time()
        await until(lambda: time.time() > sent + 0.01, "it has expired")
        async with client.queue(name).receive() as incoming:
            dead = await until_dead(client, name)

            await client.dead.replay([dead.position], channel=dead.channel)

            event = await incoming.next(timeout=10)
            assert (event.data, event.expires_at_ms) == ("brief", 0)


async def test_what_was_in_a_queue_that_is_gone_is_replayed_into_a_new_one(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await client.queue(name).send("left behind")
        await client.delete(name, force=True)

        (dead,) = await dead_of(client, name)
        await client.dead.replay([dead.position], channel=dead.channel)

        async with client.queue(name).receive() as incoming:
            assert (await incoming.next(timeout=10)).data == "left behind"


async def test_purging_removes_what_is_named_and_nothing_else(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await rejected(client, name, 20)
        first, second, *_ = await dead_of(client, name)

        assert await client.dead.purge([first.position, second.position], channel=first.channel) == 2
        assert await client.dead.purge(selector=f"of = '{name}' AND n > 9") == 10

        assert [event.data["n"] for event in await dead_of(client, name)] == list(range(2, 10))


async def test_one_dead_event_is_shown_by_its_position(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await rejected(client, name, 20)
        wanted = (await dead_of(client, name))[17]

        event = await client.dead.show(wanted.position, channel=wanted.channel)

        assert (event.data, event.dead) == (wanted.data, wanted.dead)


async def test_what_makes_no_sense_is_refused_with_what_to_do() -> None:
    async with holdfast.connect("memory:") as client:
        for refused in (client.dead.replay(), client.dead.purge(), client.dead.purge([1], everything=True)):
            with pytest.raises(BadSetting, match="say which dead events are meant"):
                await refused
        with pytest.raises(BadSetting, match="limit 0 is not a number of events"):
            await client.dead.list(limit=0)
        with pytest.raises(BadSetting, match="position 'first' is not the place of an event"):
            await client.dead.purge(["first"])  # type: ignore[list-item]
        with pytest.raises(NoSuchPosition, match="no dead event waits at position 7"):
            await client.dead.show(7)
        with pytest.raises(BadName, match="only Holdfast itself sends to '_DMQ'"):
            await client.dead.replay(everything=True, to="_DMQ")


async def test_why_events_died_is_known_after_a_restart(tmp_path: Path) -> None:
    url = f"file:{tmp_path}/events"
    async with holdfast.connect(url) as client:
        await rejected(client, "orders", 2)
        before = [event.dead for event in await client.dead.list()]
    async with holdfast.connect(url) as client:
        after = [event.dead for event in await client.dead.list()]

    assert after == before != []


async def test_thousands_of_dead_events_with_long_reasons_can_be_looked_at(name: str) -> None:
    """What travels with one event, and in one frame, is bounded."""
    async with holdfast.connect("memory:") as client, client.queue(name).receive() as incoming:
        for number in range(300):
            await client.queue(name).send(number)
            await (await incoming.next(timeout=10)).reject(Exception(f"{number} " + "ü" * 5_000))
        await incoming.settled()

        found = await client.dead.list()
        async with client.queue("_DMQ").receive() as dead:
            received = [await dead.next(timeout=10) for _ in range(300)]

        assert [event.data for event in found] == [event.data for event in received] == list(range(300))
        assert [event.dead for event in found] == [event.dead for event in received]
        assert found[7].dead[0].reason.startswith("Exception: 7 ü")


async def test_a_large_dead_event_is_replayed_among_others_once_with_all_its_attributes_b20(url: str, name: str) -> None:
    large = bytes(range(256)) * 4_000
    async with holdfast.connect(url) as client:
        sent = await client.queue(name).send_stream(large, type="picture", subject="s", properties={"of": name}, priority=7)
        await client.queue(name).send("small", properties={"of": name})
        await client.delete(name, force=True)

        replayed = await client.dead.replay(selector=f"of = '{name}'")

        assert replayed == 2
        assert await dead_of(client, name) == []
        async with client.queue(name).receive() as incoming:
            events = [await incoming.next(timeout=10) for _ in range(2)]
            (picture,) = [event for event in events if event.is_large]
            assert (picture.id, picture.type, picture.subject, picture.priority) == (sent.id, "picture", "s", 7)
            assert picture.properties == {"of": name}
            async with picture.open_stream() as stream:
                assert await stream.read() == large
            for event in events:
                await event.confirm()


async def test_an_empty_selector_does_not_mean_all_dead_events(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await rejected(client, name)

        for selector in ("", "  "):
            with pytest.raises(BadSetting, match="everything=True"):
                await client.dead.purge(selector=selector)
            with pytest.raises(BadSetting, match="everything=True"):
                await client.dead.replay(selector=selector)

        assert len(await dead_of(client, name)) == 1


@pytest.mark.parametrize("position", ["7", None, -1, 1 << 64, 1.5, True])
async def test_what_is_no_position_is_refused_before_it_travels(url: str, position: object) -> None:
    async with holdfast.connect(url) as client:
        with pytest.raises(BadSetting, match="is not the place of an event"):
            await client.dead.show(position)  # type: ignore[arg-type]  # what is wrong is what is tested
