"""Relays in a test: their definitions, and waiting for what they pass on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import holdfast
from holdfast.client.client import Client
from holdfast.relay import Relay, RelayDefinition, Route, Upstream
from tests.running_server import RunningServer, running
from tests.waiting import until


class Pair(NamedTuple):
    """An upstream server and a local one, with a client of each."""

    head: RunningServer
    berlin: RunningServer
    at_head: Client
    at_berlin: Client


@asynccontextmanager
async def a_pair(folder: Path) -> AsyncIterator[Pair]:
    async with (
        running(folder / "head") as head,
        running(folder / "berlin") as berlin,
        holdfast.connect(head.url) as at_head,
        holdfast.connect(berlin.url) as at_berlin,
    ):
        yield Pair(head, berlin, at_head, at_berlin)


def defined(upstream: str, local: str, /, name: str = "berlin", **routes: Route) -> RelayDefinition:
    """A relay with one upstream, `head`."""
    return RelayDefinition(name, local, {"head": Upstream(upstream)}, routes)


def route(**fields: Any) -> Route:
    return Route(upstream="head", **fields)


@asynccontextmanager
async def relaying(definition: RelayDefinition) -> AsyncIterator[Relay]:
    async with Relay(definition) as relay:
        yield relay


def of(relay: Relay, line: str) -> dict[str, Any]:
    """What a relay tells of one of its routes."""
    return next(each for each in relay.status()["routes"] if each["route"] == line)


async def draws(relay: Relay, *lines: str) -> None:
    """Wait until these routes draw."""
    await until(lambda: all(of(relay, line)["held_back"] == "" for line in lines), f"{lines} draw: {relay.status()}")


async def confirm_all(client: Client, topic: str, subscription: str, count: int) -> list[Any]:
    """Take so many events, and confirm them: their data."""
    found = []
    async with client.session() as session, session.subscribe(topic, subscription) as incoming:
        for _ in range(count):
            event = await incoming.next(30)
            found.append(event.data)
            await event.confirm()
    return found


async def waiting_upstream(client: Client, relay: str = "berlin") -> int:
    """How many events wait upstream for a relay."""
    found = await client.subscriptions()
    return sum(each["waiting"] for each in found if each["name"].startswith(f"relay.{relay}."))


async def upstream_empty(client: Client, relay: str = "berlin") -> None:
    """Wait until upstream holds nothing for the relay."""

    async def is_empty() -> bool:
        return await waiting_upstream(client, relay) == 0

    await until(is_empty, "upstream holds nothing for the relay")


async def marks_gone(client: Client, relay: str = "berlin") -> None:
    """Wait until the marks of the relay are gone, but for the base of each line."""

    async def are_gone() -> bool:
        found = await client.subscriptions()
        mine = [each for each in found if (each.get("topic") or "").startswith(f"relay.{relay}.") and each["name"] == "marks"]
        return all(each["waiting"] <= 1 for each in mine)

    await until(are_gone, "the marks of the relay are gone")
