"""Thousands of questions, and answers that are long: neither costs the link (P14)."""

from __future__ import annotations

import asyncio

import pytest

import holdfast
from tests.contract.places import server, url

pytestmark = pytest.mark.slow

__all__ = ["server", "url"]

MANY = 5_000


async def test_thousands_of_questions_asked_at_once_are_all_answered_and_so_is_a_long_list(url: str) -> None:
    async with holdfast.connect(url) as client:
        await asyncio.gather(*(client.create_queue(f"one-of-many-queues-{number}") for number in range(MANY)))

        names = {each["name"] for each in await client.destinations(timeout=10)}

    assert {f"one-of-many-queues-{number}" for number in range(MANY)} <= names
