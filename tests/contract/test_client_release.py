"""Releases over every place a client can find its events at: who decides how long an event waits, and the reason that is kept."""

from __future__ import annotations

import time

import pytest

import holdfast
from holdfast import blocking
from holdfast.errors import BadSetting
from tests.contract.places import name, server, url
from tests.contract.test_client_dead import until_dead

__all__ = ["name", "server", "url"]


async def test_an_event_of_a_queue_of_first_use_comes_again_after_a_second_and_at_once_if_the_program_says_so(
    url: str, name: str
) -> None:
    async with holdfast.connect(url) as client, client.queue(name).receive() as incoming:
        await client.queue(name).send(1)
        await (await incoming.next(timeout=10)).release(delay=0)
        event = await incoming.next(timeout=10)
        released = time.monotonic()
        await event.release()
        event = await incoming.next(timeout=30)
        waited = time.monotonic() - released

        assert event.deliveries == 2
        assert waited >= 1.9  # its second return
        await event.confirm()


async def test_a_delay_that_is_said_counts_and_not_the_back_off_of_the_queue(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await client.create_queue(name, redelivery_delay=3_600)
        async with client.queue(name).receive() as incoming:
            await client.queue(name).send(1)
            await (await incoming.next(timeout=10)).release(delay=0.01)

            assert (await incoming.next(timeout=30)).deliveries == 1


async def test_an_event_that_is_released_at_once_again_and_again_does_not_go_round_as_fast_as_it_can(url: str, name: str) -> None:
    async with holdfast.connect(url) as client, client.queue(name).receive() as incoming:
        await client.queue(name).send(1)
        for _ in range(20):
            await (await incoming.next(timeout=10)).release(delay=0)
        twentieth = time.monotonic()
        event = await incoming.next(timeout=30)
        waited = time.monotonic() - twentieth
        await event.release(delay=0)
        await incoming.settled()
        often = [row for row in (await client.status())["redelivered_often"] if row["destination"] == name]

        assert event.deliveries == 20
        assert waited >= 0.9
        assert often == [{"destination": name, "subscription": None, "match": "name", "events": 1}]


@pytest.mark.parametrize("given", ["no stock", OSError("no stock")])
async def test_the_last_reason_is_with_an_event_that_died_of_its_redelivery_limit(
    url: str, name: str, given: str | OSError
) -> None:
    async with holdfast.connect(url) as client:
        await client.create_queue(name, redelivery_limit=1)
        await client.queue(name).send(1)
        async with client.queue(name).receive() as incoming:
            await (await incoming.next(timeout=10)).release(reason="the first")
            await (await incoming.next(timeout=10)).release(reason=given)
            await incoming.settled()
            event = await until_dead(client, name)

        said = "no stock" if isinstance(given, str) else "OSError: no stock"
        assert event.dead[0].reason == f"redelivered too often: {said}"
        assert event.dead[0].code == "redelivered"


def test_the_blocking_client_keeps_a_reason_too_and_a_long_one_is_cut(url: str, name: str) -> None:
    with blocking.connect(url) as client:
        client.ensure_queue(name, redelivery_limit=1, redelivery_delay=0)
        client.queue(name).send(1)
        with client.queue(name).receive() as incoming:
            for _ in range(2):
                incoming.next(timeout=10).release(reason="x" * 10_000)
            incoming.settled()
            deadline = time.monotonic() + 60
            while not (dead := client.dead.list(queue=name)) and time.monotonic() < deadline:
                pass

        assert dead[0].dead[0].reason == "redelivered too often: " + "x" * 500


async def test_a_reason_that_is_no_text_is_refused(url: str, name: str) -> None:
    async with holdfast.connect(url) as client, client.queue(name).receive() as incoming:
        await client.queue(name).send(1)
        event = await incoming.next(timeout=10)

        with pytest.raises(BadSetting, match="the reason of a release is text"):
            event.release(reason=7)  # type: ignore[arg-type]
        await event.confirm()
