"""Confirm modes (JMS 2.0 section 6.2.10): when an event that was handed out counts as finished."""

from __future__ import annotations

import asyncio

import pytest

import holdfast
from holdfast.client.client import Client
from holdfast.errors import Refused, TimedOut
from tests.contract.places import name, server, url

__all__ = ["name", "server", "url"]


async def waiting(client: Client, queue: str) -> int:
    return int((await client.describe(queue))["waiting"])


async def left(client: Client, queue: str) -> dict[object, int]:
    """What is still there, and how often each was delivered before."""
    async with client.queue(queue).receive() as incoming:
        count = await waiting(client, queue)
        return {event.data: event.deliveries for event in [await incoming.next(timeout=10) for _ in range(count)]}


# --- auto ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["auto", "duplicates-ok"])
async def test_in_auto_mode_an_event_is_confirmed_when_the_next_is_asked_for(url: str, name: str, mode: str) -> None:
    """JMS 6.2.10: AUTO_ACKNOWLEDGE and DUPS_OK_ACKNOWLEDGE acknowledge without the program saying so."""
    async with holdfast.connect(url) as client:
        await client.queue(name).send_many(range(100))
        async with client.queue(name).receive(confirm=mode) as incoming:  # type: ignore[arg-type]
            seen = 0
            async for event in incoming:
                assert event.data == seen
                seen += 1
                if seen == 100:
                    break

        assert await waiting(client, name) == 0


async def test_in_auto_mode_the_event_in_hand_is_not_confirmed_yet(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await client.queue(name).send_many(range(3))
        async with client.queue(name).receive(confirm="auto") as incoming:
            await incoming.next(timeout=10)
            await incoming.settled(timeout=10)
            assert await waiting(client, name) == 3

            await incoming.next(timeout=10)
            await incoming.settled(timeout=10)
            assert await waiting(client, name) == 2

        assert await waiting(client, name) == 1  # left without an error: the one in hand is finished


@pytest.mark.parametrize("mode", ["auto", "duplicates-ok"])
async def test_in_auto_mode_an_event_whose_handling_raises_comes_again_counted(url: str, name: str, mode: str) -> None:
    """JMS 8.7: if a listener throws, its message is redelivered; here, when the loop's body raises."""
    async with holdfast.connect(url) as client:
        await client.queue(name).send_many(range(4))

        with pytest.raises(ZeroDivisionError):
            async with client.queue(name).receive(confirm=mode) as incoming:  # type: ignore[arg-type]
                async for event in incoming:
                    if event.data == 2:
                        1 / 0  # noqa: B018  # the handling that fails

        assert await left(client, name) == {2: 1, 3: 0}


async def test_in_auto_mode_an_event_whose_task_is_cancelled_comes_again_counted(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await client.queue(name).send_many(range(2))
        handling = asyncio.Event()

        async def work() -> None:
            async with client.queue(name).receive(confirm="auto") as incoming:
                async for _ in incoming:
                    handling.set()
                    await asyncio.Event().wait()

        task = asyncio.create_task(work())
        await handling.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

        assert await left(client, name) == {0: 1, 1: 0}


async def test_in_auto_mode_a_verdict_of_the_programs_own_counts(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await client.queue(name).send_many(["reject", "release", "confirm", "leave"], timeout=10)
        async with client.queue(name).receive(confirm="auto") as incoming:
            await (await incoming.next(timeout=10)).reject("of no use")
            await (await incoming.next(timeout=10)).release(delay=60)
            await (await incoming.next(timeout=10)).confirm()
            await incoming.next(timeout=10)

        assert await waiting(client, name) == 1  # the released one alone


async def test_in_auto_mode_a_wait_that_ends_without_an_event_has_confirmed_the_one_before(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await client.queue(name).send(1)
        async with client.queue(name).receive(confirm="auto") as incoming:
            await incoming.next(timeout=10)
            with pytest.raises(TimedOut):
                await incoming.next(timeout=0.01)
            await incoming.settled(timeout=10)

            assert await waiting(client, name) == 0


async def test_in_auto_mode_a_second_task_may_not_confirm_what_the_first_is_at_work_on(name: str) -> None:
    """JMS 6.2.5: a session is used by one thread at a time."""
    async with holdfast.connect("memory:") as client:
        await client.queue(name).send_many(range(2))
        async with client.queue(name).receive(confirm="auto") as incoming:
            first = await incoming.next(timeout=10)

            with pytest.raises(Refused, match="give each task a receiver"):
                await asyncio.create_task(incoming.next(timeout=10))

            await first.confirm()  # decided: now another may ask
            assert (await asyncio.create_task(incoming.next(timeout=10))).data == 1


async def test_in_duplicates_ok_mode_the_server_is_told_late_and_on_leaving(url: str, name: str) -> None:
    """JMS 6.2.10: DUPS_OK_ACKNOWLEDGE acknowledges lazily; after a failure some messages may come again."""
    async with holdfast.connect(url) as client:
        await client.queue(name).send_many(range(100))
        async with client.queue(name).receive(confirm="duplicates-ok") as incoming:
            for _ in range(100):
                await incoming.next(timeout=10)
            assert await waiting(client, name) == 100

        assert await waiting(client, name) == 0


# --- client ----------------------------------------------------------------------------------------------------------


async def test_in_client_mode_one_confirm_confirms_all_that_the_session_was_handed(url: str, name: str) -> None:
    """JMS 6.2.10: in CLIENT_ACKNOWLEDGE mode acknowledging a message acknowledges all messages the session has consumed."""
    async with holdfast.connect(url) as client, client.session(confirm="client") as session:
        await client.queue(f"{name}-a").send_many(range(5))
        await client.queue(f"{name}-b").send_many(range(5))
        async with session.queue(f"{name}-a").receive() as one, session.queue(f"{name}-b").receive() as other:
            first = await one.next(timeout=10)
            for _ in range(2):
                await one.next(timeout=10)
                await other.next(timeout=10)

            await first.confirm()
            await one.settled(timeout=10)
            await other.settled(timeout=10)

            assert (await waiting(client, f"{name}-a"), await waiting(client, f"{name}-b")) == (2, 3)


async def test_in_client_mode_a_later_confirm_confirms_what_was_handed_since(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await client.queue(name).send_many(range(10))
        async with client.queue(name).receive(confirm="client") as incoming:
            events = [await incoming.next(timeout=10) for _ in range(4)]
            await events[-1].confirm()
            later = [await incoming.next(timeout=10) for _ in range(3)]
            await later[0].confirm()
            await incoming.settled(timeout=10)

            assert await waiting(client, name) == 3


async def test_in_client_mode_confirming_the_same_event_again_confirms_what_was_handed_since(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await client.queue(name).send_many(range(5))
        async with client.queue(name).receive(confirm="client") as incoming:
            first = await incoming.next(timeout=10)
            await first.confirm()
            await incoming.next(timeout=10)
            await first.confirm()
            await incoming.settled(timeout=10)

            assert await waiting(client, name) == 3


async def test_in_client_mode_what_was_not_confirmed_on_leaving_comes_again(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await client.queue(name).send_many(range(6))
        async with client.queue(name).receive(confirm="client") as incoming:
            await incoming.next(timeout=10)
            await (await incoming.next(timeout=10)).confirm()
            await incoming.next(timeout=10)
            await incoming.next(timeout=10)

        assert await left(client, name) == {2: 1, 3: 1, 4: 0, 5: 0}


async def test_in_client_mode_an_event_may_be_decided_on_by_itself_before_the_rest_is_confirmed(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await client.queue(name).send_many(range(3))
        async with client.queue(name).receive(confirm="client") as incoming:
            events = [await incoming.next(timeout=10) for _ in range(3)]
            await events[1].release(delay=60)
            await events[2].confirm()
            with pytest.raises(Refused, match="confirmed already, together with another"):
                await events[0].release()

        assert await waiting(client, name) == 1


async def test_in_client_mode_other_sessions_and_other_modes_are_left_alone(url: str, name: str) -> None:
    async with holdfast.connect(url) as client, client.session(confirm="client") as session:
        for letter in "abc":
            await client.queue(f"{name}-{letter}").send(letter)
        async with (
            session.queue(f"{name}-a").receive() as mine,
            session.queue(f"{name}-b").receive(confirm="event") as apart,
            client.queue(f"{name}-c").receive(confirm="client") as elsewhere,
        ):
            event, *_ = [await incoming.next(timeout=10) for incoming in (mine, apart, elsewhere)]
            await event.confirm()
            for incoming in (mine, apart, elsewhere):
                await incoming.settled(timeout=10)

            assert [await waiting(client, f"{name}-{letter}") for letter in "abc"] == [0, 1, 1]


async def test_a_session_hands_its_confirm_mode_to_its_receivers(url: str, name: str) -> None:
    async with holdfast.connect(url) as client, client.session(confirm="auto") as session:
        async with session.subscribe(name) as news, session.queue(f"{name}-q").receive() as incoming:
            await client.topic(name).send("news")
            await client.queue(f"{name}-q").send("work")
            await news.next(timeout=10)
            await incoming.next(timeout=10)

        assert await waiting(client, f"{name}-q") == 0


async def test_leaving_a_session_settles_its_open_receivers_as_their_mode_says(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await client.queue(name).send_many(range(4))
        async with client.session(confirm="auto") as session:
            incoming = await session.queue(name).receive().open()
            await incoming.next(timeout=10)
        assert await waiting(client, name) == 3

        with pytest.raises(ZeroDivisionError):
            async with client.session(confirm="auto") as session:
                incoming = await session.queue(name).receive().open()
                await incoming.next(timeout=10)
                1 / 0  # noqa: B018  # what goes wrong

        assert await left(client, name) == {1: 1, 2: 0, 3: 0}
