"""The planned takeover: a primary hands its message manager over, and delivers until another's claim is applied (ADR 29).

    order ──▶ node of the primary ── heartbeat: resigns to b ──▶ b claims at once ──▶ applied ──▶ b speaks, the former is silent

The primary only invites. It goes on as before until it reads the claim, so that nothing stands still when the successor dies
meanwhile: then the next one is invited, and if there is none, nothing has changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from holdfast.cluster.succession import Standing, successors
from holdfast.errors import BadSetting, HoldfastError, Unavailable
from holdfast.node.clock import Clock
from holdfast.node.clustered.heartbeat import Heart
from holdfast.node.clustered.member import Member
from holdfast.node.clustered.orders.heard import Heard
from holdfast.node.clustered.orders.node_calls import NodeCalls
from holdfast.node.clustered.roster import Roster
from holdfast.node.messages.message_manager import MessageManager

# A successor that has not claimed by then is passed over: a claim is one append, and a NATS election takes longer anyway.
CLAIM_S = 3.0
ORDER_S = 15.0


class Takeovers:
    def __init__(self, members: Mapping[str, Member], roster: Roster, heart: Heart, heard: Heard, clock: Clock) -> None:
        self._members = members
        self._roster = roster
        self._heart = heart
        self._heard = heard
        self._clock = clock

    async def order(self, calls: NodeCalls, manager: str, to: str = "") -> dict[str, Any]:
        """Have a message manager taken over by the node `to`, or by the first that can: who leads now, and how long it took."""
        order = self._roster.nodes_of(manager)
        if to and to not in order:
            raise BadSetting(f"node {to!r:.40} has no copy of {manager}; there are: {', '.join(order)}", setting="to")
        began_ms = self._clock.steady_ms()
        former = self._roster.primary(manager, began_ms)
        if former is None:
            raise Unavailable(
                f"message manager {manager} has no primary now, and a copy takes over by itself when one can; look at `holdfast "
                "cluster status`"
            )
        if former != to:
            await calls.ask(former, "resign", {"manager": manager, "to": to}, ORDER_S)
            await self._heard.until(lambda: self._new_primary(manager, former) is not None, CLAIM_S)
        now_ms = self._clock.steady_ms()
        return {
            "manager": manager,
            "primary": self._roster.primary(manager, now_ms),
            "former": former,
            "epoch": self._roster.epoch(manager),
            "took_ms": now_ms - began_ms,
        }

    def _new_primary(self, manager: str, former: str) -> str | None:
        primary = self._roster.primary(manager, self._clock.steady_ms())
        return primary if primary != former else None

    async def serve(self, arguments: dict[str, Any]) -> None:
        """The call of another node: this one is primary, and resigns."""
        await self.resign(arguments["manager"], arguments["to"])

    async def resign(self, manager: str, to: str = "") -> None:
        """Return when another node is primary. Unavailable when none takes over: this one goes on."""
        member = self._members.get(manager)
        if member is None or member.manager is None or not member.is_primary:
            raise Unavailable(f"this node is not primary of {manager} any more; ask again")
        leading = member.manager
        tried = []
        for successor in await self._successors(manager, leading.directory.epoch, to):
            tried.append(successor.node)
            member.resign_to(successor.start)
            self._heart.tell()
            try:
                await self._heard.until(partial(self._is_decided, member, leading, successor), CLAIM_S)
            finally:
                member.resign_to("")
            if not _leads(member, leading):
                return
        raise Unavailable(f"{', '.join(tried)} did not take {manager} over within {CLAIM_S:g} s; {self._roster.own} goes on")

    async def _successors(self, manager: str, epoch: int, to: str) -> list[Standing]:
        """Those that can take over. A copy that is just being opened, or has not read the newest claim yet, is waited for."""

        def found() -> list[Standing]:
            standings = self._roster.standings(manager, self._clock.steady_ms())
            return successors(manager, self._roster.own, epoch, self._roster.nodes_of(manager), standings, to)

        def is_found() -> bool:
            with suppress(Unavailable):
                return bool(found())
            return False

        others = [node for node in self._roster.nodes_of(manager) if node != self._roster.own and to in ("", node)]
        if any(self._roster.takes_part(node, self._clock.steady_ms()) for node in others):
            await self._heard.until(is_found, CLAIM_S)
        return found()

    def _is_decided(self, member: Member, leading: MessageManager, successor: Standing) -> bool:
        """Another node leads, or the successor is gone, and will not."""
        standing = self._roster.standings(member.name, self._clock.steady_ms()).get(successor.node)
        is_gone = standing is None or standing.start != successor.start or not standing.is_heard or standing.is_drained
        return is_gone or not _leads(member, leading)

    async def resign_all(self) -> dict[str, str]:
        """Hand over every message manager that this node leads; those that nobody takes over, and why."""
        kept = {}
        for name, member in self._members.items():
            if member.is_primary:
                try:
                    await self.resign(name)
                except HoldfastError as problem:
                    kept[name] = problem.sentence
        return kept


def _leads(member: Member, leading: MessageManager) -> bool:
    return member.manager is leading and leading.is_primary
