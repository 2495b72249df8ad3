"""Gone routes: those that the file of a relay has no more. Their subscriptions upstream hold events for nobody, and for ever.

    a recipient that its route names no more (mode `each`) ──▶ its subscription is deleted, as the document says
    a route that is not in the file any more                ──▶ told in log and status; `forget` deletes what is left of it

What is left: subscriptions upstream, and marks here. `forget` loses events only where that is said (`force`): those that wait
upstream and are not here. What the relay has appended stays with its recipients here, who confirm it as ever; upstream is not
told of that any more.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from contextlib import AsyncExitStack
from typing import Any

import msgspec

from holdfast.client.client import Client
from holdfast.errors import BadSetting, NotEmpty, Refused
from holdfast.event.position import Ranges
from holdfast.relay import names, report
from holdfast.relay.clients import local_client, upstream_client
from holdfast.relay.definition import RelayDefinition
from holdfast.relay.line import mark_store

log = logging.getLogger("holdfast.relay")

RANGES_AT_ONCE = 1_000


class GoneRoute(msgspec.Struct, frozen=True):
    """A subscription upstream that is of no route of the relay."""

    route: str
    upstream: str
    subscription: str
    waiting: int
    topic: str | None = None
    regex: str | None = None

    def described(self) -> dict[str, Any]:
        return {"route": self.route, "from": self.upstream, "subscription": self.subscription, "waiting_upstream": self.waiting}

    def sentence(self) -> str:
        return (
            f"route {self.route} is not in the file any more, and its subscription {self.subscription} at {self.upstream} holds "
            f"{self.waiting:,} events; write the route into the file again, or delete what is left of it: "
            f"holdfast relay forget {self.route} --config FILE"
        )


async def find(definition: RelayDefinition, upstream: str, client: Client, kept: Collection[str]) -> list[GoneRoute]:
    """What is left upstream of routes of this relay; not of those that are kept."""
    found = []
    for each in await client.subscriptions():
        route = definition.line_of(each["name"])
        if route is not None and route not in kept:
            pattern = each.get("pattern")
            is_regex = each.get("match") == "regex" and pattern is not None
            topic = None if is_regex else pattern or each.get("topic")
            found.append(GoneRoute(route, upstream, each["name"], each.get("waiting", 0), topic, pattern if is_regex else None))
    return found


async def delete_former_recipients(definition: RelayDefinition, upstream: str, client: Client) -> list[GoneRoute]:
    """Delete subscriptions of recipients that are named no more (mode `each`). Return those of routes that are gone."""
    left = []
    for each in await find(definition, upstream, client, definition.lines()):
        if definition.is_of_former_recipient(each.route):
            await _delete(each, client)
            log.info("recipient %s is no longer named: its subscription at %s is deleted", each.route, upstream)
        else:
            left.append(each)
    return left


class Forgotten(msgspec.Struct, frozen=True):
    """A route of which nothing is left, and how many events were lost by that."""

    route: str
    lost: int


async def forget(
    definition: RelayDefinition, route: str | None = None, *, everything: bool = False, force: bool = False,
    timeout: float | None = None,
) -> list[Forgotten]:  # fmt: skip
    """Delete what is left of routes that the definition has no more, or of one of them; with `everything`, of all routes and of
    the relay itself. NotEmpty, before anything is deleted, if events would be lost and `force` does not say that they may be."""
    kept = () if everything else definition.lines()
    if route is not None and any(_is_of(each, route) for each in kept):
        raise BadSetting(f"route {route!r} is in the file: take it out, and start the relay again", setting="route")
    async with AsyncExitStack() as stack:
        local = await stack.enter_async_context(local_client(definition, timeout))
        upstreams = {
            name: await stack.enter_async_context(upstream_client(definition, name, timeout)) for name in definition.upstreams
        }
        await _check_not_running(definition, local, route, everything=everything)
        found = [each for name, client in upstreams.items() for each in await find(definition, name, client, kept)]
        found = [each for each in found if _is_of(each.route, route)]
        lost = [await _lost(each, upstreams[each.upstream], local, definition.name) for each in found]
        _check_nothing_lost(found, lost, force=force)
        for each in found:
            await _delete(each, upstreams[each.upstream])
        marked = [each for each in await _marked(local, definition.name, kept) if _is_of(each, route)]
        for each_route in marked:
            await _forget_marks(local, definition.name, each_route)
        if everything:
            await _forget_relay(definition, local, upstreams.values(), force=force)
    routes = sorted({*(each.route for each in found), *marked})
    return [
        Forgotten(name, sum(events for each, events in zip(found, lost, strict=True) if each.route == name)) for name in routes
    ]


def _is_of(line: str, route: str | None) -> bool:
    """Whether a line is that of a route, or of one of its recipients. None: of any route."""
    return route is None or line == route or line.startswith(f"{route}.")


async def _check_not_running(definition: RelayDefinition, local: Client, route: str | None, *, everything: bool) -> None:
    """Refused while a relay runs that still has what is to be forgotten: it would make it anew."""
    running = await report.ask_if_running(local, definition.name)
    if running is None:
        return
    kept = definition.lines()
    if everything or any(each["route"] not in kept and _is_of(each["route"], route) for each in running["routes"]):
        raise Refused(
            f"relay {definition.name!r} runs, and still has what is to be forgotten; "
            + ("stop it first" if everything else "start it again with the changed file first")
        )


def _check_nothing_lost(found: list[GoneRoute], lost: list[int], *, force: bool) -> None:
    if force or not any(lost):
        return
    each, events = next((each, events) for each, events in zip(found, lost, strict=True) if events)
    raise NotEmpty(
        f"{sum(lost):,} events wait upstream and are not here; {events:,} of them at {each.upstream} for route {each.route}. "
        "They would be lost: write the route into the file again and let them pass, or give --force",
        destination=each.topic or each.regex or "",
        waiting=sum(lost),
    )


async def _lost(each: GoneRoute, upstream: Client, local: Client, relay: str) -> int:
    """How many of the events that wait in a subscription upstream are not in the local journal: the marks of the route tell."""
    if not each.waiting:
        return 0
    where, match = each.topic or each.regex or "", "regex" if each.regex else None
    asked: dict[str, Any] = {"subscription": each.subscription, "match": match}
    identity = (await upstream.outcomes(where, Ranges(), **asked)).identity
    marks = await mark_store.look(local, names.marks_topic(relay, each.route))
    own = Ranges.gather((run.first, run.last) for mark in marks if mark.identity == identity for run in mark.stretches)
    here = [(await upstream.outcomes(where, part, **asked)).waiting.count for part in own.portions(RANGES_AT_ONCE)]
    return max(0, each.waiting - sum(here))


async def _delete(each: GoneRoute, client: Client) -> None:
    await client.delete_subscription(each.topic, each.subscription, regex=each.regex, force=True, missing_ok=True)


async def _marked(local: Client, relay: str, kept: Collection[str]) -> list[str]:
    """Routes that have marks here, but for those that are kept."""
    topics = [row["name"] for row in await local.destinations(prefix=names.stem(relay))]
    routes = [names.route_of_marks(relay, topic) for topic in topics]
    return [route for route in routes if route is not None and route not in kept]


async def _forget_marks(local: Client, relay: str, route: str) -> None:
    topic = names.marks_topic(relay, route)
    await local.delete_subscription(topic, mark_store.SUBSCRIPTION, force=True, missing_ok=True)
    await local.delete(topic, missing_ok=True)


async def _forget_relay(definition: RelayDefinition, local: Client, upstreams: Iterable[Client], *, force: bool) -> None:
    """Delete the queue of replies, and the topics over which the relay is asked."""
    await local.delete(definition.replies, force=force, missing_ok=True)
    for client in (local, *upstreams):
        await client.delete(names.ask_topic(definition.name), missing_ok=True)
