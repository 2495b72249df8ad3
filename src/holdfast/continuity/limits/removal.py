"""The removal of servers that lag too far: who sees how far each is says in the topic who is to be removed.

Current listeners look, and engines do: a server may be dead together with its listener and its machine.

The machine over the topic decides (continuity rule 8): it removes nobody if too few others are current, and it removes once,
because the change names the state that it follows. The subscription of a removed server goes afterwards, if no listener uses it:
one that lives makes it anew itself.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from holdfast.client.client import Client
from holdfast.continuity.domain import HISTORY, Domain, subscription_of
from holdfast.continuity.limits.lag_watch import LagWatch, beyond
from holdfast.continuity.machines import change as changes
from holdfast.continuity.machines.change import Change
from holdfast.continuity.machines.membership import Membership
from holdfast.continuity.request import MEMBER
from holdfast.errors import HoldfastError

log = logging.getLogger("holdfast.continuity")

CHECK_SECONDS = 0.5


class Removal:
    def __init__(self, client: Client, domain: Domain, membership: Callable[[], Membership], server: str = "") -> None:
        """`server`: that of the listener that looks; "" for an engine."""
        self._client = client
        self._domain = domain
        self._server = server
        self._membership = membership
        self.watch = LagWatch()

    async def check_for_ever(self, bytes_passed: Callable[[], int]) -> None:
        """Look now and then, until cancelled. For an engine."""
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            try:
                await self.check(time.monotonic(), bytes_passed())
            except HoldfastError as problem:
                log.info("how far the servers of domain %s are is not seen for the moment: %s", self._domain.name, problem)

    async def check(self, now: float, bytes_passed: int) -> None:
        """Look at the subscriptions of all servers. Call it now and then: a listener, while its server is current."""
        found = {each["name"]: each for each in await self._client.subscriptions(self._domain.requests)}
        if HISTORY not in found:
            return
        membership = self._membership()
        newest = found[HISTORY]["accepted"]
        self.watch.note(newest, now, bytes_passed)
        for name, member in list(membership.members.items()):
            subscription = found.get(subscription_of(name))
            if name == self._server or subscription is None:
                continue
            is_alone = not subscription["receivers"]
            if member.state == "removed":
                if is_alone:
                    await self._delete(name)
            elif is_alone or member.state in ("current", "behind"):  # one that catches up lags, and is let
                await self._judge(membership, name, newest - subscription["waiting"], now)

    async def _judge(self, membership: Membership, name: str, place: int, now: float) -> None:
        reason = beyond(self.watch.lag(place, now), self._domain.lag_max)
        if reason and membership.can_remove(name):
            log.warning("server %s is to be removed: %s", name, reason)
            change = Change("remove", name, since=membership.members[name].since_place, reason=reason)
            topic = self._client.topic(self._domain.requests)
            await topic.try_send(changes.encode(change), type=MEMBER, datacontenttype="application/json")

    async def _delete(self, name: str) -> None:
        topic = self._domain.requests
        if await self._client.delete_subscription(topic, subscription_of(name), force=True, missing_ok=True):
            log.info("the subscription of server %s, which is removed, was deleted", name)
