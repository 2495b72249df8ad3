"""The history of a domain: everything since the oldest snapshot that is kept. It is given up to a place (`history_quota`)."""

from __future__ import annotations

import logging

from holdfast.client.client import Client
from holdfast.continuity.domain import HISTORY, Domain
from holdfast.errors import HoldfastError

log = logging.getLogger("holdfast.continuity")

# Events are confirmed in portions, so that the history is free for others in between.
PORTION = 10_000


async def begins_after(client: Client, domain: Domain) -> int:
    """The place up to which the history was given up. It is confirmed in order, so that a count says it."""
    found = [each for each in await client.subscriptions(domain.requests) if each["name"] == HISTORY]
    return found[0]["confirmed"] if found else 0


async def newest_place(client: Client, domain: Domain) -> int | None:
    """The place of the newest event of the topic; None if there is no history."""
    found = [each for each in await client.subscriptions(domain.requests) if each["name"] == HISTORY]
    return found[0]["accepted"] if found else None


async def give_up(client: Client, domain: Domain, place: int) -> int:
    """Confirm the history up to a place, or a portion of it; how many events. Another listener that does so goes first."""
    if await begins_after(client, domain) >= place:
        return 0
    done = 0
    try:
        async with client.subscribe(domain.requests, HISTORY, credit=PORTION) as incoming:
            left = min(PORTION, place - await begins_after(client, domain))
            while done < left:
                event = await incoming.next()
                await event.confirm()
                done += 1
    except HoldfastError as problem:
        log.info("the history of domain %s stays as it is for the moment: %s", domain.name, problem)
    return done
