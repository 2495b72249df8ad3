"""The upkeep of a domain, which every listener does now and then: what it has not told yet, what is due, and who lags."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

from holdfast.client.client import Client
from holdfast.continuity.domain import Domain
from holdfast.continuity.limits import history
from holdfast.continuity.limits.history_quota import Held, judge
from holdfast.continuity.limits.removal import Removal
from holdfast.continuity.link.frame import ServerState
from holdfast.continuity.listener.rebuild.snapshot_taker import SnapshotTaker
from holdfast.continuity.machines.change import Change, Kind
from holdfast.continuity.machines.membership import Membership
from holdfast.errors import Closed, HoldfastError

log = logging.getLogger("holdfast.continuity")

UPKEEP_SECONDS = 0.5
# A state that was told and has not come back from the topic is told again after this: its event may have been lost.
TOLD_SECONDS = 5.0
# What the topic knows of a server, and how it is. One that must be rebuilt, and cannot be, is behind for all.
_NEWS = (("current", "behind"), ("current", "in doubt"), ("current", "rebuilding"), ("behind", "current"))


class Upkeep:
    """`state` tells how the server is, `bytes_passed` how many bytes of events it has received; `look_ahead`
    looks for skipped requests, if it is stuck."""

    def __init__(
        self,
        client: Client,
        domain: Domain,
        server: str,
        membership: Membership,
        snapshots: SnapshotTaker,
        publish: Callable[[Change], None],
        state: Callable[[], ServerState],
        bytes_passed: Callable[[], int],
        look_ahead: Callable[[], Awaitable[None]],
    ) -> None:
        self._client, self._domain, self._server = client, domain, server
        self._membership = membership
        self._snapshots = snapshots
        self._removal = Removal(client, domain, lambda: membership, server)
        self._publish = publish
        self._state = state
        self._bytes_passed = bytes_passed
        self._look_ahead = look_ahead
        self._problem = ""  # of the history
        self._told: tuple[int, Kind, float] = (-1, "current", 0.0)  # the place of the state it follows, what was told, and when

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            await asyncio.sleep(UPKEEP_SECONDS)
            try:
                self.tell_state(time.monotonic())
                await self._look_ahead()
                if self._state() == "current":
                    await self._care_for_all(time.monotonic())
            except Closed:
                raise
            except HoldfastError as problem:
                log.info("server %s does not see how the others are: %s", self._server, problem)

    async def _care_for_all(self, now: float) -> None:
        self._snapshots.want_if_due(now)
        await self._removal.check(now, self._bytes_passed())
        await self._care_for_history(now)

    async def _care_for_history(self, now: float) -> None:
        """Have a snapshot taken if the history needs one, and give up what nobody needs."""
        watch, begins_after = self._removal.watch, await history.begins_after(self._client, self._domain)
        held, since = (Held(*watch.lag(place, now)[:2]) for place in (begins_after, self._snapshots.last_place))
        found = judge(
            self._membership.members, self._domain.history_max, held, self._server, since, self._snapshots.can_take, begins_after
        )
        if found.is_forced:
            self._snapshots.want(now)
        if found.problem and not self._problem:
            log.warning("domain %s: %s", self._domain.name, found.problem)
        self._problem = found.problem
        await history.give_up(self._client, self._domain, found.give_up_to)

    def tell_state(self, now: float) -> None:
        """Say in the topic that the server has fallen behind, or has caught up."""
        member, state = self._membership.members.get(self._server), self._state()
        if member is None or (member.state, state) not in _NEWS:
            return
        kind: Kind = "current" if state == "current" else "behind"
        if self._told[:2] != (member.since_place, kind) or now - self._told[2] > TOLD_SECONDS:
            self._told = (member.since_place, kind, now)
            self._publish(Change(kind, self._server, since=member.since_place))
