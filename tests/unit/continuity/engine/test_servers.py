"""The servers of a domain, as an engine knows them: what their listeners say, put together."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast.continuity.engine import servers as engine_servers
from holdfast.continuity.engine.servers import Servers
from holdfast.continuity.link.frame import Hello, Message, Running, State, Traced
from holdfast.continuity.machines.membership import Change, Membership
from tests.waiting import turn_loop


class Link:
    """What a listener was sent."""

    def __init__(self, server: str) -> None:
        self.hello = Hello(1, "shop", server, "", "server", "store")
        self.sent: list[Message] = []

    def send(self, message: Message) -> None:
        self.sent.append(message)

    def end(self, reason: str) -> None: ...


def entered(servers: Servers, *names: str) -> list[Any]:
    links: list[Any] = [Link(name) for name in names]
    for link in links:
        servers.enter(link)
    return links


def state(passed: int = 0, members: Membership | None = None) -> State:
    number, encoded = (members.number, members.encode()) if members is not None else (0, b"")
    return State("current", 1, 1, number, encoded, bytes_passed=passed)


def test_the_bytes_that_passed_are_counted_once_by_whoever_saw_most_and_a_listener_that_comes_adds_nothing() -> None:
    servers = Servers(lambda: 0.0)
    a, b = entered(servers, "a", "b")
    servers.hear(a, state(1_000))
    servers.hear(b, state(50))
    assert servers.bytes_passed() == 0

    servers.hear(a, state(1_400))
    servers.hear(b, state(550))
    assert servers.bytes_passed() == 500
    assert servers.bytes_passed() == 500

    (again,) = entered(servers, "a")
    servers.hear(again, state(99_999))
    assert servers.bytes_passed() == 500


def test_the_newest_membership_that_any_listener_tells_counts() -> None:
    servers, old, new = Servers(lambda: 0.0), Membership(), Membership()
    a, b = entered(servers, "a", "b")
    for members in (old, new):
        members.apply(1, Change("join", "a"))
    new.apply(2, Change("join", "b"))

    servers.hear(a, state(members=new))
    servers.hear(b, state(members=old))
    servers.hear(a, state())

    assert list(servers.members.members) == ["a", "b"]


async def test_a_trace_that_one_listener_knows_is_found_before_the_others_have_answered() -> None:
    servers = Servers(lambda: 0.0)
    a, b = entered(servers, "a", "b")

    asked = asyncio.create_task(servers.running("00ff"))
    await turn_loop()
    assert a.sent == b.sent == [Traced("1", "00ff")]
    servers.heard_running("b", Running("1", "t7"))

    assert await asked == "t7"
    servers.heard_running("a", Running("1", "t8"))  # late, and passed over


async def test_a_trace_that_nobody_knows_is_not_running_and_a_silent_listener_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    servers = Servers(lambda: 0.0)
    assert await servers.running("00ff") == ""
    entered(servers, "a", "b")
    asked = asyncio.create_task(servers.running("00ff"))
    await turn_loop()
    for name in "ab":
        servers.heard_running(name, Running("2", ""))
    assert await asked == ""

    monkeypatch.setattr(engine_servers, "TRACED_SECONDS", 0.01)
    assert await servers.running("00ff") == ""
