"""Taking over a durable subscription, over every place a client can find its events at."""

from __future__ import annotations

import pytest

import holdfast
from holdfast import blocking
from holdfast.errors import BadSetting, Detached, SubscriptionInUse
from tests.contract.places import name, server, url

__all__ = ["name", "server", "url"]


async def test_who_takes_over_gets_what_the_former_receiver_held_and_the_former_one_is_told(url: str, name: str) -> None:
    async with holdfast.connect(url) as client, client.session() as again:
        former = await client.subscribe(name, "audit").open()
        await client.topic(name).send_many([1, 2, 3])
        held = await former.next(timeout=10)

        async with again.subscribe(name, "audit", take_over=True) as incoming:
            found = [await incoming.next(timeout=10) for _ in range(3)]
            for event in found:
                await event.confirm()
            await incoming.settled()
            with pytest.raises(Detached, match="took this subscription over"):
                while True:
                    await former.next(timeout=10)
            await held.confirm()
            with pytest.raises(Detached):
                await former.settled()

        assert [event.data for event in found] == [1, 2, 3]
        # The server knows of none that the program was handed: the next one, the first, counts (rule 5).
        assert [event.deliveries for event in found] == [1, 0, 0]
        await former.close()


async def test_without_take_over_a_second_receiver_is_refused_as_before(url: str, name: str) -> None:
    async with holdfast.connect(url) as client, client.session() as again, client.subscribe(name, "audit"):
        with pytest.raises(SubscriptionInUse):
            await again.subscribe(name, "audit").open()


async def test_take_over_is_for_durable_subscriptions_with_one_receiver(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        with pytest.raises(BadSetting, match="take_over"):
            client.subscribe(name, take_over=True)
        with pytest.raises(BadSetting, match="take_over"):
            client.subscribe(name, "pool", shared=True, take_over=True)
        with pytest.raises(BadSetting, match="True or False"):
            client.subscribe(name, "audit", take_over=1)  # type: ignore[arg-type]


async def test_a_subscription_that_is_read_by_place_is_not_taken_over(url: str, name: str) -> None:
    async with holdfast.connect(url) as client, client.session() as again, client.reading(name, "lake").owner():
        with pytest.raises(SubscriptionInUse, match="by place"):
            await again.subscribe(name, "lake", take_over=True).open()


def test_a_program_without_a_loop_takes_over(url: str, name: str) -> None:
    with blocking.connect(url) as client, client.session() as again:
        former = client.subscribe(name, "audit").open()
        client.topic(name).send(1)
        assert former.next(timeout=10).data == 1

        with again.subscribe(name, "audit", take_over=True) as incoming:
            event = incoming.next(timeout=10)

            assert (event.data, event.deliveries) == (1, 1)
        with pytest.raises(Detached, match="took this subscription over"):
            former.next(timeout=10)
        former.close()
