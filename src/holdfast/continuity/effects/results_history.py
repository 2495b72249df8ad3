"""The history of results: results live as long as the requests that asked for them, and are given up with those.

    requests   ──── given up ────┤ history begins      ├ the slowest server
    results    ── forgettable ───┤                          both are past it: nobody asks for these effects again

A server has finished a request when its asks are in the effects queue. So the carrier forgets only after it has received all that
was in the queue when it looked: an effect that nobody has carried out yet is never taken for one that was forgotten.

What is in doubt stays until an operator settles it, and what came after it. Outcomes are confirmed in their order, from the
oldest, so that exactly those are taken out which go.
"""

from __future__ import annotations

from collections.abc import Callable

from holdfast.client.client import Client
from holdfast.continuity.domain import HISTORY, RESULTS_KEPT, SERVERS, Domain
from holdfast.continuity.effects.effect_events import Outcome, decode_outcome
from holdfast.continuity.machines.effects import Identity

# Outcomes are given up in portions.
PORTION = 1_000


async def forgettable_up_to(client: Client, domain: Domain) -> int:
    """The place up to which no request is called again: every server has finished it, and history does not reach back to it."""
    found = await client.subscriptions(domain.requests)
    history = next((each for each in found if each["name"] == HISTORY), None)
    if history is None:
        return 0
    finished = (history["accepted"] - each["waiting"] for each in found if each["name"].startswith(SERVERS))
    return min(history["confirmed"], *finished, history["accepted"])


async def asks_waiting(client: Client, domain: Domain) -> int:
    """Asks in the effects queue that are not confirmed, also those that the carrier has received."""
    return sum(each["waiting"] for each in await client.destinations() if each["name"] == domain.effects_queue)


async def give_up(client: Client, domain: Domain, place: int, is_needed: Callable[[Identity], bool]) -> int:
    """Give up the oldest outcomes of requests up to a place; how many. `is_needed`: it is in doubt, or somebody waits for it."""
    count = 0
    async with client.topic(domain.results).browse(HISTORY) as browser:
        async for event in browser:
            told = _outcome(bytes(event.body))
            if told is not None and (not 0 < told.place <= place or is_needed(told.identity)):
                break
            count += 1
            if count >= PORTION:
                break
    if not count:
        return 0
    async with client.subscribe(domain.results, HISTORY, selector=RESULTS_KEPT, credit=count) as incoming:
        for _ in range(count):
            await (await incoming.next()).confirm()
    return count


def _outcome(body: bytes) -> Outcome | None:
    try:
        return decode_outcome(body)
    except ValueError:
        return None
