"""Ensuring destinations and subscriptions, over every place a client can find its events at: a program may start twice."""

from __future__ import annotations

import asyncio

import pytest

import holdfast
from holdfast import blocking
from holdfast.errors import BadSetting, NotEmpty, SettingsDiffer, WrongKind
from tests.contract.places import name, server, url

__all__ = ["name", "server", "url"]


async def test_a_program_that_starts_twice_finds_what_it_made(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        first = await client.ensure_queue(name, redelivery_limit=5, deduplicate="10m")
        again = await client.ensure_queue(name, redelivery_limit=5, deduplicate=600)

        assert (first, again) == ("created", "unchanged")


async def test_a_difference_names_each_setting_and_both_values_and_update_changes_it(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await client.create_queue(name, redelivery_limit=3, events_max=10)

        with pytest.raises(SettingsDiffer, match="redelivery_limit is 3 and 5 was asked for") as refused:
            await client.ensure_queue(name, redelivery_limit=5)
        changed = await client.ensure_queue(name, redelivery_limit=5, update=True)
        described = await client.describe(name)

        assert refused.value.fields == {"name": name, "redelivery_limit": 3, "redelivery_limit_asked": 5}
        assert changed == "changed"
        assert (described["redelivery_limit"], described["events_max"]) == (5, 10)


async def test_a_queue_that_the_producer_used_first_takes_the_settings_of_the_worker(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await client.queue(name).send("early")
        before = await client.describe(name)

        ensured = await client.ensure_queue(name, redelivery_limit=5, redelivery_delay=0.01)
        described = await client.describe(name)

        assert (before["redelivery_delay"], before["redelivery_factor"], before["redelivery_delay_max"]) == (1, 2, 60)
        assert before["redelivery_limit"] == 0
        assert ensured == "changed"
        assert (described["redelivery_limit"], described["redelivery_delay"], described["redelivery_delay_max"]) == (5, 0.01, 0)
        assert described["waiting"] == 1


async def test_of_programs_that_ensure_at_the_same_time_one_creates(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        answers = await asyncio.gather(*(client.ensure_queue(name, redelivery_limit=2) for _ in range(10)))
        others = await asyncio.gather(
            *(client.ensure_queue(name + "-2", redelivery_limit=limit) for limit in (1, 2)), return_exceptions=True
        )

        assert sorted(answers) == ["created", *["unchanged"] * 9]
        assert [type(each).__name__ for each in others] == ["str", "SettingsDiffer"]


async def test_subscriptions_are_ensured_with_their_topic(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        first = await client.ensure_subscription(name, "large", selector="amount > 100")
        again = await client.ensure_subscription(name, "large")
        await client.topic(name).send(1, properties={"amount": 120})

        with pytest.raises(SettingsDiffer, match="'amount > 100' and none was asked for"):
            await client.ensure_subscription(name, "large", selector=None)
        with pytest.raises(NotEmpty):
            await client.ensure_subscription(name, "large", selector="amount > 5", update=True)
        changed = await client.ensure_subscription(name, "large", selector="amount > 5", update=True, replace=True)

        assert (first, again, changed) == ("created", "unchanged", "changed")
        assert [each["selector"] for each in await client.subscriptions(name)] == ["amount > 5"]
        assert await client.ensure_subscription(f"{name}.*", "all", shared=True) == "created"


def test_the_blocking_client_ensures_too(url: str, name: str) -> None:
    with blocking.connect(url) as client:
        made = [client.ensure_queue(name), client.ensure_topic(name + "-t"), client.ensure_subscription(name + "-t", "s")]

        assert made == ["created"] * 3
        with pytest.raises(WrongKind):
            client.ensure_topic(name)
        with pytest.raises(BadSetting, match="there is no setting 'colour'"):
            client.ensure_queue(name, colour=1)  # type: ignore[call-arg]


async def test_shared_cannot_be_changed_and_the_refusal_says_what_can_be_done(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await client.ensure_subscription(name, "audit")

        with pytest.raises(SettingsDiffer, match="shared cannot be changed: delete it first, or say update=True, replace=True"):
            await client.ensure_subscription(name, "audit", shared=True)
        assert await client.ensure_subscription(name, "audit", shared=True, update=True, replace=True) == "changed"
