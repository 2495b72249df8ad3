"""The look-ahead: finds what events that stand behind a request in the topic decide about it (continuity rules 4 and 14).

    finished │ received │ request … votes that skip it, or the answer that was given … │ head
                        └───────────────────────── looked at ──────────────────────────┘

Every current server died of a request that is skipped. A listener learns that only when it receives the votes, which is too late:

    a server is new, rebuilt or late      it would call the request first, and die of it
    more than a window stands in between  a listener that waits for the votes would never receive them

So the listener looks through its own subscription, when it joins and when such a request fills its window. It applies the changes
that it finds to a copy of its membership, at their places: what is skipped in the end is the same as at all others.

Another server may have answered the request. Then it is never skipped, and this server is to be rebuilt: also that is told by an
event which a full window keeps away.

Cost: votes are searched first, by selector, so that Holdfast sends nothing if there are none. If there are, all that waits is
read once. Answers that were given are searched by selector. While a request fills the window this is repeated, and takes at most
a tenth of the time.
"""

from __future__ import annotations

import contextlib
import logging
import time

from holdfast.client.client import Client
from holdfast.client.reading.browser import BrowsedEvent
from holdfast.continuity.domain import Domain, subscription_of
from holdfast.continuity.listener.durable.store import Store
from holdfast.continuity.listener.requests_in_order import RequestsInOrder
from holdfast.continuity.listener.topic_events import TopicEvents, change_in, given_in
from holdfast.continuity.machines.change import Skipped
from holdfast.continuity.machines.membership import Membership
from holdfast.continuity.request import GIVEN, SKIP

log = logging.getLogger("holdfast.continuity")

# Looking again takes at most one part of so many of the time.
PARTS = 10


class LookAhead:
    """`events` is told what is skipped, for requests that it has not received; `requests`, for those that it has."""

    def __init__(
        self, client: Client, domain: Domain, server: str, store: Store, events: TopicEvents, requests: RequestsInOrder
    ) -> None:
        self._client, self._topic, self._name = client, domain.requests, subscription_of(server)
        self._store = store
        self._events, self._requests = events, requests
        self._again_at = 0.0

    async def look_if_stuck(self) -> None:
        """Look, if nothing more is received because of a request of which the server died."""
        if self._requests.order.is_full and self._requests.doubt.dying and time.monotonic() >= self._again_at:
            began = time.monotonic()
            await self.look()
            if self._events.has_joined:  # a server that is being rebuilt is not rebuilt for it again
                await self._look_for_given()
            self._again_at = time.monotonic() + PARTS * (time.monotonic() - began)

    async def _look_for_given(self) -> None:
        """Find answers that were given, perhaps to a request of which this server died."""
        async with self._client.topic(self._topic).browse(self._name, selector=f"type = '{GIVEN}'") as waiting:
            async for event in waiting:
                with contextlib.suppress(KeyError, TypeError, ValueError, AttributeError):  # passed over, as in its turn
                    for key, digest in given_in(event) if event.position > self._events.newest_position else ():
                        self._requests.given(key, digest)

    async def look(self) -> None:
        """Find what is skipped, and pass over it."""
        place = self._events.place
        if await self._has_votes():
            found = await self._skipped()
            if self._events.place == place:  # else events may have gone while it looked, and places were counted wrong
                self._events.skipped_ahead |= found
                for transaction in found:
                    log.warning("transaction %s is passed over: all servers died of it", transaction)
                    self._requests.skip(transaction)

    async def _has_votes(self) -> bool:
        async with self._client.topic(self._topic).browse(self._name, selector=f"type = '{SKIP}'", page=1) as votes:
            return await votes.next() is not None

    async def _skipped(self) -> set[str]:
        """The transactions that are skipped by events which were not received yet."""
        membership, place = Membership.decode(self._events.membership.encode()), self._events.place
        newest, contained = self._events.newest_position, self._events.contained
        found: set[str] = set()
        async with self._client.topic(self._topic).browse(self._name) as waiting:
            async for event in waiting:
                if event.position <= newest:
                    continue
                if contained:
                    contained -= 1
                    continue
                if self._is_finished(event, place):
                    continue
                place += 1
                found |= _applied(membership, place, event)
        return found

    def _is_finished(self, event: BrowsedEvent, place: int) -> bool:
        recorded = self._store.place_at(event.position)
        return recorded is not None and recorded <= place


def _applied(membership: Membership, place: int, event: BrowsedEvent) -> set[str]:
    """Apply the change in an event, if there is one; the transactions that are skipped by it."""
    try:
        change = change_in(event)
    except (KeyError, TypeError, ValueError, AttributeError):  # passed over, as in its turn
        return set()
    effects = membership.apply(place, change) if change is not None else []
    return {each.transaction for each in effects if isinstance(each, Skipped)}
