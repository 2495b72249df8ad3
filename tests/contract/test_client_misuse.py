"""The client used wrongly, over every place (E1, E2): not opened, closed, from another loop, with numbers that are none.

Each is a refusal that says what to do; none waits for ever.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

import holdfast
import holdfast.blocking
from holdfast.errors import (
    BadEvent,
    BadName,
    BadSetting,
    BadUrl,
    Closed,
    HoldfastError,
    ProtocolError,
    Refused,
    TooLarge,
    Unreachable,
    WrongLoop,
)
from holdfast.logging_handler import EventHandler
from tests.contract.places import name, server, url

__all__ = ["name", "server", "url"]

SECONDS_MAX = 10


async def refused(kind: type[HoldfastError], call: Callable[[], Awaitable[Any]], said: str = "") -> None:
    with pytest.raises(kind, match=said):
        async with asyncio.timeout(SECONDS_MAX):
            await call()


# --- options that do not exist ---------------------------------------------------------------------------------------


async def test_an_option_that_does_not_exist_is_named_with_those_that_do() -> None:
    wrong: Any = {"selectr": "amount > 100"}
    async with holdfast.connect("memory:") as client:
        for call in (client.queue("q").receive, client.topic("t").subscribe, client.subscribe):
            with pytest.raises(TypeError, match=r"no option 'selectr'; it has: .*selector"):
                call(**wrong)
        for look in (client.queue("q").browse, client.reading):
            with pytest.raises(TypeError, match="'selectr'"):
                look(*(["q"] if look == client.reading else []), **wrong)
        with pytest.raises(TypeError, match="no option 'selectr'; it has: shared, no_local, selector, replace"):
            await client.create_subscription("t", "audit", **wrong)
        with pytest.raises(BadSetting, match="no setting 'selectr'; there are: redelivery_limit"):
            await client.create_queue("q", **wrong)


def test_the_blocking_client_names_it_before_the_receiver_is_opened() -> None:
    wrong: Any = {"credits": 7}
    with holdfast.blocking.connect("memory:") as client:
        for call in (client.queue("q").receive, client.topic("t").subscribe, client.subscribe):
            with pytest.raises(TypeError, match=r"no option 'credits'; it has: .*credit_bytes"):
                call(**wrong)


# --- not opened, opened twice, closed --------------------------------------------------------------------------------


async def test_a_client_that_was_not_opened_says_how_to(url: str) -> None:
    client = holdfast.connect(url)

    with pytest.raises(Closed, match="async with"):
        client.queue("q")
    await refused(Closed, client.status, "async with")
    await client.close()


async def test_a_receiver_that_was_not_opened_says_how_to_and_does_not_wait(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await client.queue(name).send(1)
        incoming = client.queue(name).receive()

        await refused(Closed, incoming.next, "async with")
        with pytest.raises(Closed, match="async with"):
            async for _ in incoming:
                pass


async def test_a_receiver_is_opened_once(url: str, name: str) -> None:
    async with holdfast.connect(url) as client, client.queue(name).receive() as incoming:
        await refused(Closed, incoming.open, "opened once")
        await incoming.close()
        await incoming.close()
        await refused(Closed, incoming.open, "opened once")


async def test_a_closed_client_refuses_everything_and_may_be_closed_again(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        queue = client.queue(name)
        pipeline = queue.pipeline()
        await pipeline.send(1)

    await client.close()
    await refused(Closed, lambda: queue.send(1), "connect again")
    await refused(Closed, queue.receive().open, "connect again")
    await refused(Closed, client.status, "connect again")
    await refused(Closed, client.open, "opened once")
    with pytest.raises(Closed, match="connect again"):
        await pipeline.send(2)


async def test_a_verdict_after_the_receiver_was_left_is_refused_and_the_event_comes_again(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await client.queue(name).send("again")
        async with client.queue(name).receive() as incoming:
            event = await incoming.next(timeout=10)

        with pytest.raises(Closed, match="delivered again"):
            event.confirm()
        async with client.queue(name).receive() as incoming:
            assert (await incoming.next(timeout=10)).redelivered


def test_the_blocking_client_refuses_the_same(url: str, name: str) -> None:
    with pytest.raises(Closed, match=r"with holdfast\.blocking"):
        holdfast.blocking.connect(url).queue(name)
    with holdfast.blocking.connect(url) as client:
        queue = client.queue(name)
        with pytest.raises(Closed, match="inside `with"):
            list(queue.receive())
        with pytest.raises(BadSetting, match="timeout"):
            queue.send(1, timeout=-1)
        with queue.pipeline() as pipeline:
            pipeline.send(1)
        with pytest.raises(Closed, match="pipeline was left"):
            pipeline.send(2)
    with pytest.raises(Closed, match="connect again"):
        queue.send(1)
    client.close()


# --- another loop ----------------------------------------------------------------------------------------------------


def test_a_client_that_is_used_from_another_loop_is_refused_there_and_goes_on_in_its_own(url: str, name: str) -> None:
    with asyncio.Runner() as first, asyncio.Runner() as second:
        client = first.run(holdfast.connect(url).open())
        queue = client.queue(name)
        incoming = first.run(queue.receive().open())
        first.run(queue.send("kept"))

        for call in (lambda: queue.send(1), client.status, lambda: incoming.next(1), queue.pipeline().__aenter__, client.close):
            second.run(refused(WrongLoop, call, "connect again here"))

        assert first.run(incoming.next(10)).data == "kept"
        first.run(client.close())


# --- numbers, names and data that are none ---------------------------------------------------------------------------


@pytest.mark.parametrize("timeout", [0, -1, "soon", float("nan")])
async def test_a_timeout_that_leaves_no_time_is_refused_before_anything_is_sent(timeout: Any) -> None:
    with pytest.raises(BadSetting, match="timeout"):
        holdfast.connect("memory:", timeout=timeout)
    async with holdfast.connect("memory:") as client, client.queue("q").receive() as incoming:
        await refused(BadSetting, lambda: client.queue("q").send(1, timeout=timeout), "timeout")
        await refused(BadSetting, lambda: client.status(timeout=timeout), "timeout")
        await refused(BadSetting, lambda: incoming.settled(timeout), "timeout")
        with pytest.raises(BadSetting, match="timeout"):
            client.queue("q").pipeline(timeout=timeout)

        assert (await client.describe("q"))["waiting"] == 0


@pytest.mark.parametrize("timeout", [-1, "soon", float("nan")])
async def test_a_wait_for_an_event_may_be_of_no_time_but_not_of_less(timeout: Any) -> None:
    async with holdfast.connect("memory:") as client, client.queue("q").receive() as incoming:
        await refused(BadSetting, lambda: incoming.next(timeout), "timeout")
        with pytest.raises(BadSetting, match="timeout"):
            client.queue("q").receive(timeout=timeout)
        with pytest.raises(holdfast.Unavailable, match="within 0 s"):
            await incoming.next(0)


@pytest.mark.parametrize("credit", [0, -1, 1.5, "many", True, 1 << 64])
async def test_credit_that_is_no_number_of_events_is_refused(credit: Any) -> None:
    async with holdfast.connect("memory:") as client:
        with pytest.raises(BadSetting, match="credit"):
            client.queue("q").receive(credit=credit)
        with pytest.raises(BadSetting, match="credit"):
            client.topic("t").subscribe(credit_bytes=credit)


@pytest.mark.parametrize("limit", [-1, True, 1.5, "three", 1 << 70])
async def test_a_redelivery_limit_that_is_none_is_refused_by_client_and_server(url: str, name: str, limit: Any) -> None:
    """What a reader of the channel could not read back would stop it, and stop it again after every restart."""
    async with holdfast.connect(url) as client:
        await refused(BadSetting, lambda: client.create_queue(name, redelivery_limit=limit), "redelivery_limit")
        if limit != 1 << 70:  # which the wire has no number for
            asked = {"name": name, "kind": "queue", "redelivery_limit": limit}
            await refused(BadSetting, lambda: client._manage("create", None, **asked), "redelivery_limit")

        await client.queue(name).send("goes on")


async def test_an_action_that_does_not_exist_is_refused_with_those_that_do(url: str) -> None:
    async with holdfast.connect(url) as client:
        await refused(BadSetting, lambda: client._manage("explode", None), "there are: .*configure, create")


@pytest.mark.parametrize("events", ["text", b"bytes", {"a": 1}, holdfast.Event(data=1), None, 7])
async def test_one_event_is_not_taken_for_many(events: Any) -> None:
    async with holdfast.connect("memory:") as client:
        await refused(BadEvent, lambda: client.queue("q").send_many(events), "send one with send")
    with holdfast.blocking.connect("memory:") as blocking, pytest.raises(BadEvent, match="send one with send"):
        blocking.queue("q").send_many(events)


@pytest.mark.parametrize("data", [None, "", b"", [], {}, 0, False, "ü☃ \0", "日本語", {"ключ": ["é", None]}])
async def test_empty_and_foreign_data_arrives_as_it_was_sent(url: str, name: str, data: Any) -> None:
    async with holdfast.connect(url) as client, client.queue(name).receive() as incoming:
        await client.queue(name).send(data)

        received = (await incoming.next(timeout=10)).data

    assert received == data
    assert type(received) is type(data)


@pytest.mark.parametrize("time", [datetime(2026, 1, 1), datetime(9999, 12, 31, 23, tzinfo=timezone(-timedelta(hours=5)))])
async def test_a_time_that_is_no_moment_is_refused(time: datetime) -> None:
    async with holdfast.connect("memory:") as client:
        await refused(BadEvent, lambda: client.queue("q").send(1, time=time), "time")
        receipt = await client.queue("q").send(1, time=datetime(1, 1, 1, tzinfo=UTC))

        assert receipt.position > 0


async def test_a_reason_that_is_not_valid_text_is_kept_as_far_as_it_is(url: str, name: str) -> None:
    async with holdfast.connect(url) as client, client.queue(name).receive() as incoming:
        await client.queue(name).send(1)
        await (await incoming.next(timeout=10)).reject("bad \ud800 byte")

        await incoming.settled(timeout=10)


# --- nobody there ----------------------------------------------------------------------------------------------------


async def test_no_server_is_told_in_time_and_with_the_address() -> None:
    await refused(Unreachable, holdfast.connect("holdfast://127.0.0.1:1", timeout=0.3).open, "127.0.0.1:1.+is the server running")


async def test_a_server_of_another_kind_is_named_as_such() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await reader.read()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as other:
        port = other.sockets[0].getsockname()[1]

        await refused(ProtocolError, holdfast.connect(f"holdfast://127.0.0.1:{port}", timeout=5).open, "host and port")


# --- recorder and handler --------------------------------------------------------------------------------------------


def test_a_recorder_refuses_what_could_never_be_sent(tmp_path: Path) -> None:
    with pytest.raises(BadUrl, match="folder"):
        holdfast.Recorder(None)  # type: ignore[arg-type]
    with pytest.raises(BadSetting, match="size_bytes"):
        holdfast.Recorder(tmp_path, size_bytes="4M")  # type: ignore[arg-type]
    with holdfast.Recorder(tmp_path) as recorder:
        with pytest.raises(BadName, match="text"):
            recorder.record(1, 7)  # type: ignore[arg-type]
        with pytest.raises(BadEvent, match="property"):
            recorder.record(1, "q", properties={"a": []})  # type: ignore[dict-item]
        recorder.close()
        with pytest.raises(Closed, match="open it again"):
            recorder.record(1, "q")


def test_a_log_handler_with_a_destination_that_cannot_be_is_refused_when_it_is_made(tmp_path: Path) -> None:
    with pytest.raises(BadName, match="reserved"):
        EventHandler(tmp_path / "r", destination="_LOG")

    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize("delay", ["5", [], float("nan"), -1])
async def test_a_delay_that_is_no_number_of_seconds_is_refused_and_the_event_is_still_held(
    url: str, name: str, delay: Any
) -> None:
    async with holdfast.connect(url) as client, client.queue(name).receive() as incoming:
        await client.queue(name).send(1)
        event = await incoming.next(10)

        with pytest.raises(BadSetting, match="give seconds"):
            event.release(delay)
        await event.confirm()
    with pytest.raises(BadSetting, match="give seconds"):
        async with holdfast.connect(url) as client:
            await client.create_queue(f"{name}-other", redelivery_delay=delay)


async def test_a_transaction_confirms_what_was_received_and_nothing_else(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await client.queue(name).send(1)
        async with client.queue(name).browse() as events:
            browsed = await events.next()
        wrong: Any
        for wrong in (browsed, None, "event"):
            with pytest.raises(Refused, match="receive it first"):
                async with client.transaction() as tx:
                    await tx.confirm(wrong)
        assert (await client.describe(name))["waiting"] == 1


async def test_what_does_not_fit_an_event_is_told_how_it_can_be_sent(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await refused(TooLarge, lambda: client.queue(name).send(bytes(2 << 20)), "send_stream")
        await refused(BadEvent, lambda: client.queue(name).send(1, priority="5"), "whole number up to 9")  # type: ignore[arg-type]
