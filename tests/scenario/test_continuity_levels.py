"""The levels of a running domain of two sites, as `holdfast domain status` tells them (33)."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.cli.main import run
from holdfast.continuity import register
from holdfast.continuity.domain import Domain
from holdfast.continuity.engine.engine import Engine
from tests import running_server
from tests.listening import Account, listening
from tests.waiting import until

Sites = list[tuple[str, str, str]]


async def test_a_domain_of_two_sites_is_fault_tolerant_then_single_then_stopped_and_never_called_continuous(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(running_server.running(tmp_path / "data"))
        client = await stack.enter_async_context(holdfast.connect(server.url))
        await register.create(client, Domain(name="shop"))
        servers, engines = [
            {site: await stack.enter_async_context(AsyncExitStack()) for site in ("north", "south")} for _ in range(2)
        ]

        async def status() -> dict[str, Any]:
            assert await asyncio.to_thread(run, ["domain", "status", "shop", "--json", "--url", server.url]) == 0
            return dict(json.loads(capsys.readouterr().out))

        async def until_level(level: str, ready: int, seen: Sites) -> None:
            async def is_so() -> bool:
                told = await status()
                assert told["level"] != "continuous"  # the log is at one site
                found = [(each["server"], each["site"], each["state"]) for each in told["servers"]]
                return (told["level"], told["engines_ready"], found) == (level, ready, seen)

            await until(is_so, f"the domain is {level}")

        for site in servers:
            at = f"at-{site}"
            await servers[site].enter_async_context(listening(server.url, Account(), tmp_path / site, server=at, site=site))
            await engines[site].enter_async_context(Engine(server.url, "shop", name=f"engine-{site}", site=site))
        await until_level("fault-tolerant", 2, [("at-north", "north", "current"), ("at-south", "south", "current")])

        await engines["north"].aclose()
        await servers["north"].aclose()
        await until_level("single", 1, [("at-south", "south", "current")])

        await engines["south"].aclose()
        await until_level("stopped", 0, [("at-south", "south", "current")])
