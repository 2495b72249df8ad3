"""What a client is told of the whole: all subscriptions, the patterns that match a topic, and how the server is."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import holdfast
import holdfast.blocking
from tests.contract.places import server
from tests.running_server import running

__all__ = ["server"]
KIB = 1 << 10


@pytest.fixture(params=["memory", "file", "server"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A place of this test's own, but for the server, which a module shares."""
    match request.param:
        case "memory":
            return "memory:"
        case "file":
            return f"file:{tmp_path / 'events'}"
        case _:
            return str(request.getfixturevalue("server").url)


async def test_all_subscriptions_are_listed_patterns_included_with_what_waits(url: str) -> None:
    async with holdfast.connect(url) as client:
        await client.create_topic("listed.a")
        await client.create_topic("listed.b")
        await client.create_subscription("listed.a", "audit", selector="n > 1")
        await client.create_subscription("listed.b", "audit")
        await client.create_subscription("listed.*", "pager")
        await client.create_subscription(None, "expert", regex=r"listed\.(a|b)")
        await client.topic("listed.a").send("x", properties={"n": 2})

        every = {
            (each["topic"], each["pattern"], each["name"]): each["waiting"]
            for each in await client.subscriptions()
            if each["topic"] != "_LOG" and "listed" in f"{each['topic']} {each['pattern']}"
        }

        assert every == {
            ("listed.a", None, "audit"): 1,
            ("listed.b", None, "audit"): 0,
            (None, "listed.*", "pager"): 1,
            (None, r"listed\.(a|b)", "expert"): 1,
        }
        assert {each["name"] for each in await client.subscriptions("listed.a")} == {"audit", "pager", "expert"}


@pytest.mark.parametrize("url", ["memory:", "memory:?managers=2"])
async def test_destinations_whose_names_begin_alike_are_listed_the_name_itself_too(url: str) -> None:
    async with holdfast.connect(url) as client:
        others = [f"{first}.{number}" for first in ("a", "pra", "z") for number in range(100)]
        wanted = ["pre", *(f"pre.{number}" for number in range(300)), "prefix"]
        for name in (*others, *wanted):
            await client.create_queue(name)

        assert sorted(each["name"] for each in await client.destinations(prefix="pre")) == sorted(wanted)
        assert [each["name"] for each in await client.destinations(prefix="pre.299")] == ["pre.299"]
        assert await client.destinations(prefix="nothing") == []
        assert {*others, *wanted} <= {each["name"] for each in await client.destinations()}


async def test_many_subscriptions_with_long_selectors_come_page_by_page(tmp_path: Path) -> None:
    long = f"note <> '{'x' * 4_000}'"
    async with running(tmp_path) as server, holdfast.connect(server.url) as client:
        await client.create_topic("many")
        for number in range(300):
            await client.create_subscription("many", f"s{number:03}", selector=long)
        for number in range(5):
            await client.create_subscription(f"many{number}.*", "p")

        every = await client.subscriptions()

        assert [each["name"] for each in every if each["topic"] == "many"] == [f"s{number:03}" for number in range(300)]
        assert sum(each["topic"] is None for each in every) == 5


async def test_a_topic_is_described_with_the_subscriptions_of_patterns_that_match_it(url: str) -> None:
    async with holdfast.connect(url) as client:
        await client.create_topic("shown.a")
        await client.create_subscription("shown.*", "pager")
        await client.create_subscription("other.*", "elsewhere")
        await client.topic("shown.a").send(1)

        described = await client.describe("shown.a")

        assert [(each["name"], each["pattern"], each["waiting"]) for each in described["pattern_subscriptions"]] == [
            ("pager", "shown.*", 1)
        ]
        assert described["subscriptions"] == []
        await client.create_queue("shown.q")
        assert "pattern_subscriptions" not in await client.describe("shown.q")


async def test_the_status_says_what_waits_since_when_how_full_the_journal_is_and_what_pins_it(tmp_path: Path) -> None:
    async with running(tmp_path) as server, holdfast.connect(server.url) as client:
        empty = await client.status()
        began_ms = int(time.time() * 1000)
        await client.create_topic("prices")
        await client.create_subscription("prices", "archive")
        await client.create_queue("orders", events_max=3)
        oldest = await client.topic("prices").send(1)
        await client.queue("orders").send_many([b"x" * KIB] * 3)

        full = await client.status()
        async with client.subscribe("prices", "archive") as incoming:
            await (await incoming.next(10)).confirm()
        after = await client.status()

        assert (empty["waiting"], empty["oldest_waiting"], empty["pins_space"]) == (0, None, None)
        assert 0 <= empty["journal_used_bytes"] < full["journal_used_bytes"] < full["journal_size_bytes"] == 3072 * KIB
        assert (full["waiting"], full["blocked"]) == (4, ["orders"])
        waiting, pin = full["oldest_waiting"], full["pins_space"]
        assert waiting is not None and pin is not None
        assert (waiting["destination"], waiting["subscription"], waiting["match"]) == ("prices", "archive", "name")
        assert waiting["position"] == oldest.position
        assert began_ms - 1 <= waiting["accepted_at_ms"] <= int(time.time() * 1000)
        assert (pin["destination"], pin["subscription"], pin["entry"]) == ("prices", "archive", oldest.position >> 16)
        assert pin["entries"] == full["durable"] - pin["entry"] + 1
        assert (after["waiting"], after["oldest_waiting"]["destination"]) == (3, "orders")  # type: ignore[index]


async def test_what_is_not_complete_pins_space_and_belongs_to_no_queue_yet(tmp_path: Path) -> None:
    async with running(tmp_path) as server, holdfast.connect(server.url) as client:
        stage = client.stage("nightly")
        await stage.send("orders", b"x" * KIB)
        await stage.seal()

        pin = (await client.status())["pins_space"]

        assert pin is not None
        assert (pin["destination"], pin["subscription"], pin["match"]) == (None, None, None)


def test_a_blocking_client_is_told_the_same_and_so_is_who_asks_by_an_event(tmp_path: Path) -> None:
    with holdfast.blocking.connect(f"file:{tmp_path}") as client:
        client.create_topic("prices")
        client.create_subscription("prices", "archive")
        client.topic("prices").send(1)

        assert [each["name"] for each in client.subscriptions()] == ["archive"]
        assert client.describe("prices")["pattern_subscriptions"] == []
        assert client.status()["waiting"] == 1
        asked = client.queue("_ADMIN").request({}, type="holdfast.admin.status", timeout=10).data["value"]
        assert (asked["oldest_waiting"]["destination"], asked["waiting"]) == ("prices", 2)  # the request itself waits, too
