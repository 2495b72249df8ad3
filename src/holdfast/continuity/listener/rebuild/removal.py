"""The removal of servers that lag too far: a current listener sees how far each is, and says in the topic who is to be removed.

The machine over the topic decides (continuity rule 8): it removes nobody if too few others are current, and it removes once,
because the change names the state that it follows. The subscription of a removed server goes afterwards, if no listener uses it:
one that lives makes it anew itself.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from holdfast.client.client import Client
from holdfast.continuity.domain import HISTORY, Domain, subscription_of
from holdfast.continuity.listener.rebuild.lag_watch import LagWatch, beyond
from holdfast.continuity.machines.change import Change
from holdfast.continuity.machines.membership import Membership

log = logging.getLogger("holdfast.continuity")


class Removal:
    """`publish` sends a change without waiting."""

    def __init__(
        self, client: Client, domain: Domain, server: str, membership: Membership, publish: Callable[[Change], None]
    ) -> None:
        self._client = client
        self._domain = domain
        self._server = server
        self._membership = membership
        self._publish = publish
        self._watch = LagWatch()

    async def check(self, now: float, bytes_passed: int) -> None:
        """Look at the subscriptions of all servers. Call it now and then while this server is current."""
        found = {each["name"]: each for each in await self._client.subscriptions(self._domain.requests)}
        if HISTORY not in found:
            return
        newest = found[HISTORY]["accepted"]
        self._watch.note(newest, now, bytes_passed)
        for name, member in list(self._membership.members.items()):
            subscription = found.get(subscription_of(name))
            if name == self._server or subscription is None:
                continue
            is_alone = not subscription["receivers"]
            if member.state == "removed":
                if is_alone:
                    await self._delete(name)
            elif is_alone or member.state in ("current", "behind"):  # one that catches up lags, and is let
                self._judge(name, newest - subscription["waiting"], now)

    def _judge(self, name: str, place: int, now: float) -> None:
        reason = beyond(self._watch.lag(place, now), self._domain.lag_max)
        if reason and self._membership.can_remove(name):
            log.warning("server %s is to be removed: %s", name, reason)
            self._publish(Change("remove", name, since=self._membership.members[name].since_place, reason=reason))

    async def _delete(self, name: str) -> None:
        topic = self._domain.requests
        if await self._client.delete_subscription(topic, subscription_of(name), force=True, missing_ok=True):
            log.info("the subscription of server %s, which is removed, was deleted", name)
