"""The register of domains: a definition is changed, and the newest alone is kept."""

from __future__ import annotations

import asyncio
import itertools

import pytest

import holdfast
from holdfast.client.client import Client
from holdfast.continuity import register
from holdfast.continuity.domain import Domain

_numbers = itertools.count()


@pytest.fixture
def url() -> str:
    return f"memory:register-{next(_numbers)}"


async def _kept(client: Client) -> int:
    async with client.queue("domain.shop.definition").browse() as browser:
        return len([event async for event in browser])


async def test_after_five_changes_the_newest_definition_alone_is_kept(url: str) -> None:
    async with holdfast.connect(url) as client:
        await register.create(client, Domain(name="shop"))

        for servers in range(2, 7):
            await register.change(client, Domain(name="shop", servers_min=servers))

        assert (await register.read(client, "shop")).servers_min == 6
        assert await _kept(client) == 1


async def test_of_changes_at_the_same_time_one_definition_stays(url: str) -> None:
    async with holdfast.connect(url) as client:
        await register.create(client, Domain(name="shop"))

        await asyncio.gather(*(register.change(client, Domain(name="shop", servers_min=servers)) for servers in range(2, 7)))
        found = (await register.read(client, "shop")).servers_min
        await register.change(client, Domain(name="shop"))

        assert found in range(2, 7)
        assert (await register.read(client, "shop")).servers_min == 1
        assert await _kept(client) == 1
