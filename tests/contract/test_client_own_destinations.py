"""Holdfast's own destinations: `_LOG` and `_ADMIN` (B16, B19), over every place a client can find its events at."""

from __future__ import annotations

import asyncio
import logging

import pytest

import holdfast
from holdfast.errors import BadName, TimedOut
from tests.contract.places import name, server, url

__all__ = ["name", "server", "url"]


async def test_the_three_are_there_on_a_fresh_install_b16(url: str) -> None:
    async with holdfast.connect(url) as client:
        kinds = {row["name"]: row["kind"] for row in await client.destinations()}

        assert {own: kinds[own] for own in ("_DMQ", "_LOG", "_ADMIN")} == {"_DMQ": "queue", "_LOG": "topic", "_ADMIN": "queue"}


async def test_any_other_name_with_a_leading_underscore_is_refused_b16(url: str) -> None:
    async with holdfast.connect(url) as client:
        with pytest.raises(BadName, match="reserved"):
            await client.create_queue("_x")
        with pytest.raises(BadName, match="reserved"):
            client.queue("_x")
        for own in ("_DMQ", "_LOG", "_ADMIN"):
            with pytest.raises(BadName, match="reserved"):
                await client.delete(own)


async def test_nobody_sends_to_the_dead_or_to_the_log_and_nobody_receives_what_is_asked_of_the_server(url: str) -> None:
    async with holdfast.connect(url) as client:
        for destination in (client.queue("_DMQ"), client.topic("_LOG")):
            with pytest.raises(BadName, match="only Holdfast itself sends to"):
                await destination.send("not mine")
        with pytest.raises(BadName, match="only Holdfast itself receives from '_ADMIN'"):
            async with client.queue("_ADMIN").receive():
                pass


async def test_what_the_server_logs_is_received_from_its_topic_b19() -> None:
    async with holdfast.connect("memory:") as client, client.topic("_LOG").subscribe() as incoming:
        logging.getLogger("holdfast.server").warning("the %s is full", "disk")

        event = await incoming.next(timeout=10)

        assert (event.type, event.data) == ("holdfast.log", "the disk is full")
        assert event.properties == {"level": "WARNING", "logger": "holdfast.server", "node": "holdfast"}


async def test_what_a_client_logs_and_what_is_logged_when_nobody_subscribes_is_not_kept() -> None:
    async with holdfast.connect("memory:") as client:
        logging.getLogger("holdfast.server").warning("before")
        async with client.topic("_LOG").subscribe() as incoming:
            logging.getLogger("holdfast.client").warning("mine")
            with pytest.raises(TimedOut):
                await incoming.next(timeout=0.2)


async def test_a_flood_of_records_keeps_the_newest_and_says_how_many_were_dropped_b19() -> None:
    async with holdfast.connect("memory:") as client, client.topic("_LOG").subscribe() as incoming:
        for number in range(1_500):
            logging.getLogger("holdfast.server").warning("record %d", number)

        gap = await incoming.next(timeout=10)
        after = await incoming.next(timeout=10)

        assert gap.properties["dropped"] == 500
        assert after.data == "record 500"


async def test_a_log_that_nobody_receives_stops_growing_at_its_high_water_b19() -> None:
    async with holdfast.connect("memory:") as client:
        await client.configure("_LOG", events_max=3)
        await client.create_subscription("_LOG", "forgotten")

        for number in range(3):
            logging.getLogger("holdfast.server").warning("record %d", number)
        async with asyncio.timeout(10):
            while not (await client.describe("_LOG"))["is_blocked"]:  # asking is a round trip: others have their turn
                pass
        logging.getLogger("holdfast.server").warning("one too many")
        await client.queue("other").send("what else goes on")

        assert (await client.describe("_LOG"))["waiting"] == 3


async def test_a_record_that_cannot_be_written_down_never_fails_whoever_logs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging.getLogger("holdfast"), "propagate", False)  # the test's own handlers would fail
    async with holdfast.connect("memory:") as client, client.topic("_LOG").subscribe() as incoming:
        record = logging.LogRecord("holdfast.server", logging.WARNING, "here", 1, "%d apples", ("no number",), None)
        logging.getLogger("holdfast.server").handle(record)
        logging.getLogger("holdfast.server").warning("next")

        assert (await incoming.next(timeout=10)).properties["dropped"] == 1
        assert (await incoming.next(timeout=10)).data == "next"


async def test_the_server_does_what_an_event_to_admin_asks_for_and_answers_it_b16(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        admin = client.queue("_ADMIN")

        made = await admin.request({"name": name, "kind": "queue", "events_max": 7}, type="holdfast.admin.create", timeout=10)
        found = await admin.request({"name": name}, type="holdfast.admin.describe", timeout=10)

        assert made.data == {"value": True}
        assert made.type == "holdfast.admin.answer"
        assert (found.data["value"]["kind"], found.data["value"]["events_max"]) == ("queue", 7)


@pytest.mark.parametrize(
    ("type", "data", "code", "said"),
    [
        ("holdfast.admin.create", {"name": "q", "kind": "heap"}, "bad-setting", "kind is queue or topic, not 'heap'"),
        ("holdfast.admin.create", {"kind": "queue"}, "bad-setting", "name must be given"),
        ("holdfast.admin.create", [1], "bad-event", "send the arguments as a JSON object"),
        ("holdfast.admin.fly", {}, "bad-setting", "there is no action 'fly'; there are: all_subscriptions, configure, create"),
        ("order.placed", {}, "bad-event", "the type of an event to _ADMIN is holdfast.admin.ACTION"),
        ("holdfast.admin.describe", {"name": "nowhere"}, "no-such-destination", "there is no destination 'nowhere'"),
    ],
)
async def test_what_the_server_cannot_do_is_answered_with_the_code_and_a_sentence(
    type: str, data: object, code: str, said: str
) -> None:
    async with holdfast.connect("memory:") as client:
        answer = await client.queue("_ADMIN").request(data, type=type, timeout=10)

        assert answer.data["error"] == code
        assert said in answer.data["sentence"]


async def test_what_is_asked_without_an_answer_wanted_is_done_in_order_and_finished(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        admin = client.queue("_ADMIN")
        await admin.send({"name": name, "kind": "queue"}, type="holdfast.admin.create")
        await admin.send({"name": name, "redelivery_limit": 4}, type="holdfast.admin.configure")
        await admin.send({"name": name, "redelivery_limit": 5}, type="holdfast.admin.configure", reply_to="_DMQ")
        await admin.request({}, type="holdfast.admin.status", timeout=10)

        assert (await client.describe(name))["redelivery_limit"] == 5
        async with asyncio.timeout(10):
            while (await client.describe("_ADMIN"))["waiting"]:  # asking is a round trip: others have their turn
                pass


async def test_what_was_asked_of_a_server_that_stopped_is_done_by_the_next(tmp_path: object) -> None:
    """`_ADMIN` is durable: an event that was accepted is carried out, whoever is primary then."""
    url = f"file:{tmp_path}/events"
    async with holdfast.connect(url) as client:
        await client.queue("_ADMIN").send({"name": "first", "kind": "queue"}, type="holdfast.admin.create")
    async with holdfast.connect(url) as client:
        await client.queue("_ADMIN").request({"name": "second", "kind": "queue"}, type="holdfast.admin.create", timeout=10)

        names = {row["name"] for row in await client.destinations()}
        assert {"first", "second"} <= names
