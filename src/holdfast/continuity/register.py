"""The register of domains: their definitions, kept in queues that are browsed and never taken.

    domain.shop.definition    │ definition 1, confirmed │ definition 2 │     the newest that waits counts

A change sends the new definition first and confirms the old ones afterwards, so that there is always one to read. Listeners and
engines read it when they start.
"""

from __future__ import annotations

from holdfast.client.client import Client
from holdfast.continuity.domain import HISTORY, PREFIX, RESULTS_KEPT, Domain, checked, checked_name, decode, encode
from holdfast.continuity.errors import DomainExists, NoSuchDomain
from holdfast.continuity.request import MEMBER
from holdfast.errors import DestinationExists, NoSuchDestination, TimedOut

TYPE = "holdfast.domain.definition"
_SUFFIX = ".definition"
# A change waits so long for an old definition. Where two change a domain at the same time, the other may have confirmed it.
CONFIRM_SECONDS = 2.0


async def create(client: Client, domain: Domain) -> None:
    """Create a domain: its destinations, its history, and at last its definition, which makes it known."""
    checked(domain)
    try:
        await client.create_queue(domain.definition)
    except DestinationExists:
        if await _newest(client, domain.definition) is not None:
            raise DomainExists(f"domain {domain.name!r} is there already; delete it first, or choose another name") from None
    await client.ensure_topic(domain.requests)
    await client.ensure_subscription(domain.requests, HISTORY)
    await client.ensure_topic(domain.disagreements)
    await client.ensure_queue(domain.effects_queue)
    await client.ensure_topic(domain.results)
    await client.ensure_subscription(domain.results, HISTORY, selector=RESULTS_KEPT)
    await client.queue(domain.definition).send(encode(domain), type=TYPE)


async def read(client: Client, name: str) -> Domain:
    """The definition of a domain. NoSuchDomain if there is none."""
    queue = f"{PREFIX}{checked_name(name)}{_SUFFIX}"
    try:
        found = await _newest(client, queue)
    except NoSuchDestination:
        found = None
    if found is None:
        raise NoSuchDomain(f"there is no domain {name!r}; create it with `holdfast domain create {name}`")
    return found


async def change(client: Client, domain: Domain) -> None:
    """Give a domain another definition. Listeners and engines take it when they start again."""
    checked(domain)
    await read(client, domain.name)
    queue = client.queue(domain.definition)
    receipt = await queue.send(encode(domain), type=TYPE)
    async with queue.browse() as browser:
        old = {event.position async for event in browser if event.position < receipt.position}
    try:
        async with queue.receive(timeout=CONFIRM_SECONDS) as incoming:
            while old:
                event = await incoming.next()
                if event.position >= receipt.position:
                    return
                await event.confirm()
                old.discard(event.position)
    except TimedOut:  # another change confirms them
        pass


async def names(client: Client) -> list[str]:
    """The names of all domains, in order."""
    found = [each["name"] for each in await client.destinations()]
    return sorted(name[len(PREFIX) : -len(_SUFFIX)] for name in found if name.startswith(PREFIX) and name.endswith(_SUFFIX))


async def delete(client: Client, name: str, *, force: bool = False) -> None:
    """Delete a domain with everything that waits in it. Refused while requests wait, unless `force` is said."""
    domain = await read(client, name)
    await client.delete(domain.requests, force=force, missing_ok=True)
    for each in (domain.disagreements, domain.effects_queue, domain.results):
        await client.delete(each, force=True, missing_ok=True)
    await client.delete(domain.definition, force=True, missing_ok=True)


async def change_member(client: Client, name: str, kind: str, server: str) -> None:
    """Say in the topic that a server is to be drained or rebuilt."""
    domain = await read(client, name)
    await client.topic(domain.requests).send({"kind": kind, "server": checked_name(server, "server")}, type=MEMBER)


async def _newest(client: Client, queue: str) -> Domain | None:
    newest = None
    async with client.queue(queue).browse() as browser:
        async for event in browser:
            newest = event
        return None if newest is None else decode(bytes(newest.body))
