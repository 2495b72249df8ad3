"""The history of a domain: everything since the oldest snapshot that is kept. Here it is given up to that place.

Every server must be able to go back to a snapshot of its own: the history is given up to the oldest that any of them keeps, and
not at all while one of them has none (continuity rule 8).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from holdfast.client.client import Client
from holdfast.continuity.domain import HISTORY, Domain
from holdfast.continuity.listener.rebuild.rebuild import history_begins_after
from holdfast.errors import HoldfastError

log = logging.getLogger("holdfast.continuity")

# Events are confirmed in portions, so that the history is free for others in between.
PORTION = 10_000


def needed_after(members: Iterable[str], kept: Mapping[str, int]) -> int:
    """The place up to which nobody needs the history."""
    return min((kept.get(server, 0) for server in members), default=0)


async def give_up(client: Client, domain: Domain, place: int) -> int:
    """Confirm the history up to a place, or a portion of it; how many events. Another listener that does so goes first."""
    if await history_begins_after(client, domain) >= place:
        return 0
    done = 0
    try:
        async with client.subscribe(domain.requests, HISTORY, credit=PORTION) as incoming:
            left = min(PORTION, place - await history_begins_after(client, domain))
            while done < left:
                event = await incoming.next()
                await event.confirm()
                done += 1
    except HoldfastError as problem:
        log.info("the history of domain %s stays as it is for the moment: %s", domain.name, problem)
    return done
