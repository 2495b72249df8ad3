"""Poison: what a broken or hostile client sends costs nobody else anything, and what cannot be read is set aside."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

import holdfast
import holdfast.blocking
from holdfast.destination import command
from holdfast.errors import BadSetting
from holdfast.event import batch
from holdfast.event.event import UNREADABLE_TYPE, Head, encode_head
from holdfast.node.settings import NodeSettings
from holdfast.wire.frame import Attach, Browse, Browsed, Credit, Deliver, Failed, Part, Receipted, Send
from tests.raw_client import RawClient, failing_node, fill
from tests.running_server import RunningServer, running, start

LARGE = NodeSettings(session_grace_ms=300, start_grace_ms=300)
GOOD = encode_head(Head(type="good"))
DEEP = b"\x81\xa1z" + b"\x91" * 50_000 + b"\xc0"
GARBAGE = [b"\xc1 no head", b"", b"\x81\xa1t\x07", b"\x81\xa1t\xa2\xff\xff", DEEP, b"\x81\xa1l\x93\xff\x00\xc4\x00"]
NAMES = ["reserved", "empty", "number", "not-utf8", "deep", "large-of-no-size"]


def sealed(heads: list[bytes], first_id: int = 1, **others: int) -> bytes:
    bodies = [b"%d" % index for index in range(len(heads))]
    return batch.encode(heads, bodies, source="raw", first_id=first_id, **others)  # type: ignore[arg-type]


def sent(destination: str, made: bytes, producer: str = "", sequence: int = 0) -> bytes:
    return command.encode(command.BatchCommand(destination, producer, sequence), made)


async def put(server: RunningServer, destination: str, made: bytes) -> None:
    """Into the channel as it is, as a release that checked less has done."""
    server.node.channel.append(command.encode(command.Create(destination, "queue", is_implicit=True)))
    await server.node.channel.append(sent(destination, made))


async def received(url: str, queue: str, count: int, **options: Any) -> list[Any]:
    async with holdfast.connect(url) as client, client.queue(queue).receive(**options) as incoming:
        found = []
        for _ in range(count):
            event = await incoming.next(timeout=10)
            found.append(event.data)
            await event.confirm()
        return found


async def dead(url: str) -> list[tuple[str, str, str]]:
    async with holdfast.connect(url) as client:
        return [(event.dead[0].code, event.dead[0].destination, event.type) for event in await client.dead.list()]


# --- what could not be handed out is refused -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first_id", "others"),
    [
        ((1 << 128) - 1, {}),
        (1, {"priority": 200}),
        (1, {"not_before_ms": (1 << 64) - 1}),
        (1, {"earliest_expiry_ms": (1 << 64) - 1, "latest_expiry_ms": 1}),
    ],
    ids=["ids", "priority", "delay", "expiry"],
)
async def test_a_batch_that_could_not_be_handed_out_is_refused_and_its_queue_goes_on(
    tmp_path: Path, first_id: int, others: dict[str, int]
) -> None:
    async with running(tmp_path / "data") as server:
        raw = RawClient(server.node)
        await raw.greet()
        producer = await raw.open_producer()

        raw.say(Send(1), sent("q", sealed([GOOD] * 3, first_id, **others), producer, 1))
        (failed,) = await raw.hear(Failed)

        assert (failed.code, failed.family) == ("bad-event", "refused")
        raw.say(Send(1), sent("q", sealed([GOOD]), producer, 1))
        assert await received(server.url, "q", 1) == [0]


async def test_a_journal_that_holds_a_batch_whose_ids_run_over_opens_and_sets_it_aside(tmp_path: Path) -> None:
    server = await start(tmp_path / "data")
    await put(server, "q", sealed([GOOD] * 3, (1 << 128) - 2))
    await put(server, "q", sealed([GOOD] * 2))
    await server.crash()

    async with running(tmp_path / "data") as server:
        assert await received(server.url, "q", 2, credit=1) == [0, 1]

        assert await dead(server.url) == [("unreadable", "q", "good")] * 3
        assert await received(server.url, "_DMQ", 3, credit=1) == [0, 1, 2]


# --- what cannot be read -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("head", GARBAGE, ids=NAMES)
async def test_an_event_whose_head_cannot_be_read_goes_to_the_dead_and_its_recipient_goes_on(tmp_path: Path, head: bytes) -> None:
    async with running(tmp_path / "data") as server:
        await put(server, "q", sealed([GOOD, head, GOOD, head]))
        await put(server, "q", sealed([head]))
        await put(server, "q", sealed([GOOD]))

        assert await received(server.url, "q", 3, credit=2) == [0, 2, 0]

        async with holdfast.connect(server.url) as client:
            while (await client.describe("q"))["waiting"]:  # asking is a round trip: others have their turn
                pass
        assert await dead(server.url) == [("unreadable", "q", UNREADABLE_TYPE)] * 3
        assert await received(server.url, "_DMQ", 3) == [b"1", b"3", b"0"]


@pytest.mark.parametrize("confirm", ["event", "auto", "duplicates-ok", "client"])
async def test_however_a_recipient_confirms_it_is_not_stopped_by_what_cannot_be_read(tmp_path: Path, confirm: Any) -> None:
    async with running(tmp_path / "data") as server:
        await put(server, "q", sealed([GARBAGE[0], GOOD, GARBAGE[0], GOOD]))

        assert await received(server.url, "q", 2, confirm=confirm) == [1, 3]

        assert await dead(server.url) == [("unreadable", "q", UNREADABLE_TYPE)] * 2


async def test_a_blocking_recipient_is_not_stopped_by_what_cannot_be_read(tmp_path: Path) -> None:
    def receive(url: str) -> list[Any]:
        with holdfast.blocking.connect(url) as client, client.queue("q").receive() as incoming:
            found = []
            for _ in range(2):
                event = incoming.next(timeout=10)
                found.append(event.data)
                event.confirm()
            return found

    async with running(tmp_path / "data") as server:
        await put(server, "q", sealed([GARBAGE[0], GOOD, GARBAGE[0], GOOD]))

        assert await asyncio.to_thread(receive, server.url) == [1, 3]

        assert len(await dead(server.url)) == 2


async def test_a_browser_shows_what_cannot_be_read_for_what_it_is(tmp_path: Path) -> None:
    async with running(tmp_path / "data") as server:
        await put(server, "q", sealed([GOOD, DEEP]))

        async with holdfast.connect(server.url) as client, client.queue("q").browse() as events:
            assert [(event.type, event.data) async for event in events] == [("good", 0), (UNREADABLE_TYPE, b"1")]


@pytest.mark.parametrize("head", GARBAGE, ids=NAMES)
async def test_selectors_groups_and_expiries_pass_over_what_cannot_be_read(tmp_path: Path, head: bytes) -> None:
    async with running(tmp_path / "data") as server:
        async with holdfast.connect(server.url) as client:
            await client.create_topic("t")
            await client.create_subscription("t", "chosen", selector="type = 'good'")
        made = batch.encode([head, GOOD], [b"0", b"1"], source="s", first_id=1, has_groups=True)
        for destination in ("q", "t"):
            server.node.channel.append(sent(destination, made))
        await put(server, "q", made)

        assert await received(server.url, "q", 1, selector="type = 'good'") == [1]
        async with holdfast.connect(server.url) as client, client.subscribe("t", "chosen", selector="type = 'good'") as incoming:
            assert (await incoming.next(timeout=10)).data == 1


async def test_data_nested_as_deep_as_it_likes_is_handed_out_as_bytes(tmp_path: Path) -> None:
    deep = b"[" * 50_000 + b"]" * 50_000
    async with running(tmp_path / "data") as server, holdfast.connect(server.url) as client:
        await client.queue("q").send(deep, datacontenttype="application/json")

        assert await received(server.url, "q", 1) == [deep]


async def test_what_cannot_be_read_stays_dead_when_the_dead_are_replayed_and_can_be_purged(tmp_path: Path) -> None:
    async with running(tmp_path / "data") as server, holdfast.connect(server.url) as client:
        await put(server, "q", sealed([GARBAGE[0], GOOD]))
        async with client.queue("q").receive() as incoming:
            await (await incoming.next(timeout=10)).reject("not now")

        assert await client.dead.replay(everything=True) == 1

        assert await received(server.url, "q", 1) == [1]
        assert await client.dead.purge(everything=True) == 1


# --- the queue that only the server receives from ------------------------------------------------------------------------


async def ask_admin(client: holdfast.Client, action: str, **arguments: Any) -> dict[str, Any]:
    answer = await client.queue("_ADMIN").request(arguments, type=f"holdfast.admin.{action}", timeout=10)
    found: dict[str, Any] = answer.data
    return found


@pytest.mark.parametrize("head", GARBAGE, ids=NAMES)
async def test_a_request_whose_head_cannot_be_read_is_set_aside_and_the_next_is_carried_out(tmp_path: Path, head: bytes) -> None:
    async with running(tmp_path / "data") as server, holdfast.connect(server.url) as client:
        await server.node.channel.append(sent("_ADMIN", sealed([head, head])))

        assert (await ask_admin(client, "status"))["value"]["is_primary"]

        assert await dead(server.url) == [("unreadable", "_ADMIN", UNREADABLE_TYPE)] * 2
        assert (await client.describe("_ADMIN"))["waiting"] == 0


async def test_a_request_nested_too_deep_is_answered_with_an_error(tmp_path: Path) -> None:
    deep = b'{"name": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    async with running(tmp_path / "data", LARGE) as server, holdfast.connect(server.url) as client:
        for nested in (deep, b'{"name": ' + b"[" * 900 + b"]" * 900 + b"}"):
            answer = await client.queue("_ADMIN").request(
                nested, type="holdfast.admin.describe", datacontenttype="application/json", timeout=10
            )
            assert answer.data["error"] in ("bad-event", "bad-setting", "refused")

        assert (await ask_admin(client, "status"))["value"]["is_primary"]


async def test_an_answer_that_no_event_can_hold_is_an_error_and_is_had_in_pages(tmp_path: Path) -> None:
    names = [f"s{number:03}" for number in range(400)]
    async with running(tmp_path / "data", LARGE) as server, holdfast.connect(server.url) as client:
        await client.create_topic("t")
        selector = " OR ".join(["type = 'x'"] * 250)
        for name in names:
            server.node.channel.append(command.encode(command.Subscribe("t", name, True, selector=selector)))

        whole = await ask_admin(client, "subscriptions", topic="t")
        found: list[str] = []
        after: str | None = ""
        while after is not None:
            page = (await ask_admin(client, "subscriptions", topic="t", after=after))["value"]
            found += [row["name"] for row in page["subscriptions"]]
            after = page["next"]
        described = (await ask_admin(client, "describe", name="t"))["value"]

        assert whole["error"] == "too-large"
        assert found == names
        assert len(described["subscriptions"]) + described["subscriptions_left"] == 400
        assert [row["name"] for row in await client.subscriptions("t")] == names
        assert "t" in [row["name"] for row in await client.destinations()]


async def test_what_waits_in_admin_can_be_given_up(tmp_path: Path) -> None:
    server = await start(tmp_path / "data")
    await server.node._administration.stop()
    async with holdfast.connect(server.url) as client:
        for number in range(3):
            await client.queue("_ADMIN").send({"name": f"q{number}", "kind": "queue"}, type="holdfast.admin.create")

        assert await client.empty("_ADMIN") == 3

        assert (await client.describe("_ADMIN"))["waiting"] == 0
        assert [event.dead[0].code for event in await client.dead.list()] == ["rejected"] * 3
        with pytest.raises(BadSetting, match="only '_ADMIN' is emptied so"):
            await client.empty("other")
    await server.close()

    async with running(tmp_path / "data") as server, holdfast.connect(server.url) as client:
        assert (await ask_admin(client, "status"))["value"]["is_primary"]
        assert not {row["name"] for row in await client.destinations()} & {"q0", "q1", "q2"}


async def test_a_request_that_cannot_be_answered_at_all_is_set_aside_with_one_line_of_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(tmp_path / "data") as server, holdfast.connect(server.url) as client:
        long = "x" * 130_300  # the answer repeats it, and is longer than a command of this journal may be
        await client.queue("_ADMIN").send({}, type="holdfast.admin.list", reply_to="answers", correlation_id=long)

        assert "value" in await ask_admin(client, "list")

        assert [(event.dead[0].code, event.type) for event in await client.dead.list()] == [("unreadable", "holdfast.admin.list")]
    said = [
        record.getMessage() for record in caplog.records if record.name == "holdfast.supervision" and record.levelname == "ERROR"
    ]
    assert len(said) == 1 and "of _ADMIN failed, the rest goes on" in said[0] and "\n" not in said[0]


# --- faults of our own ---------------------------------------------------------------------------------------------------


async def test_a_fault_at_reading_is_a_line_of_the_log_and_whoever_waits_is_served_all_the_same(
    caplog: pytest.LogCaptureFixture,
) -> None:
    node, channel = await failing_node()
    await node.messages.wait_until_primary()
    await fill(node, 3)
    recipient, looker = RawClient(node), RawClient(node)
    await recipient.greet()
    await looker.greet()
    channel.faults = [OverflowError("int too big to convert")]
    await recipient.ask(Attach, 1, "q", "queue", "", b"", "type = 'event'")
    recipient.say(Credit(1, 10, 1 << 20))

    delivered = await recipient.hear(Deliver)
    channel.faults = [OverflowError("int too big to convert")]
    looked_at = await looker.ask(Browse, "q")

    assert delivered[0].slices
    assert isinstance(looked_at, Failed) and "OverflowError" in looked_at.sentence
    assert isinstance(await looker.ask(Browse, "q"), Browsed)
    said = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert len(said) == 1 and "heads cannot be read, and are tried again: OverflowError" in said[0]
    await node.close()


async def test_what_a_fragment_says_beside_what_is_known_does_not_get_into_the_channel(tmp_path: Path) -> None:
    """How deep something may be nested depends on who reads it: what was taken must be readable by whoever applies it."""
    async with running(tmp_path / "data", LARGE) as server:
        raw = RawClient(server.node)
        await raw.greet()
        for number, depth in enumerate(range(850, 1000), 1):
            unknown = msgspec.Raw(b"\x91" * depth + b"\xc0")
            known = msgspec.structs.astuple(command.Part(raw.session, "a", number))
            head = msgspec.msgpack.encode([*known, "of a later release", unknown])
            raw.say(Part(number), bytes([command.Part.KIND]) + len(head).to_bytes(2, "little") + head + b"fragment")
            try:
                await raw.hear(Receipted, number)
            except AssertionError:  # too deep for the link itself, which ends
                break

        assert len(raw.of(Receipted)) > 20, raw.heard[-1]
        async with holdfast.connect(server.url) as client:
            assert (await client.status())["is_primary"]
        assert server.node.messages.failure is None
