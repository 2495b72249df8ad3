"""The check of copies: every copy of a message manager tells the digest of its state at one entry (ADR 29).

    order ──▶ Check in the channel, at entry N ──▶ each copy applies it, and remembers its digest at N
          ──digest──▶ every node with a copy ──▶ judged (`cluster.copy_check`)
          ──open anew──▶ backups that are wrong: stopped, and opened from a snapshot

Copies take the digest between two entries, so the check is exact under any load. It stops nothing, and costs each copy the time
to read its state once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

from holdfast.channel.channel import Channel, Purpose
from holdfast.cluster.copy_check import judged
from holdfast.destination import command
from holdfast.errors import Damaged, HoldfastError, Unavailable
from holdfast.node.clustered.member import Member
from holdfast.node.clustered.orders.node_calls import NodeCalls
from holdfast.node.clustered.roster import Roster

log = logging.getLogger("holdfast.message_manager")

# A copy that has not applied the entry by then did not answer: it is away, or far behind.
ANSWER_S = 5.0
# A channel that has not taken the entry by then is away.
APPEND_S = 5.0


class Checks:
    def __init__(self, members: Mapping[str, Member], roster: Roster, channels: Mapping[str, Channel]) -> None:
        self._members = members
        self._roster = roster
        self._channels = channels

    async def order(self, calls: NodeCalls) -> dict[str, Any]:
        """Check the copies of all message managers; what each told, which differ, and which did not answer."""
        managers = await asyncio.gather(*(self._check(calls, name, channel) for name, channel in self._channels.items()))
        return {
            "managers": managers,
            "is_equal": not any(each["differing"] for each in managers),
            "is_complete": not any(each["silent"] for each in managers),
        }

    async def _check(self, calls: NodeCalls, manager: str, channel: Channel) -> dict[str, Any]:
        nodes = self._roster.nodes_of(manager)
        entry, problem, told = None, "", {}
        try:
            async with asyncio.timeout(APPEND_S):
                appended = channel.append(command.encode(command.Check()), Purpose.UPKEEP)
                entry = (await asyncio.shield(appended)).entry  # which may be durable later: it does no harm
            told = await self._digests(calls, manager, entry)
        except TimeoutError:
            problem = f"the channel of {manager} did not take an entry within {APPEND_S:g} s; look at the NATS servers"
        except HoldfastError as failed:
            problem = failed.sentence
        leading = [node for node, each in told.items() if each["is_primary"]]
        primary = max(leading, key=lambda node: told[node]["epoch"], default=None)
        found = judged({node: each["digest"] for node, each in told.items()}, primary)
        if primary in found.differing:
            log.error("message manager %s: its primary %s differs from most copies at entry %s", manager, primary, entry)
        opened = [node for node in found.wrong_backups if await self._have_opened_anew(calls, node, manager, entry, found.digest)]
        return {
            "name": manager,
            "entry": entry,
            "primary": primary,
            "problem": problem,
            "copies": [
                {
                    "node": node,
                    "digest": told[node]["digest"] if node in told else None,
                    "is_primary": node == primary,
                    "is_equal": node not in found.differing if node in told else None,
                    "is_opened_anew": node in opened,
                }
                for node in nodes
            ],
            "differing": found.differing,
            "silent": [node for node in nodes if node not in told],
        }

    async def _digests(self, calls: NodeCalls, manager: str, entry: int) -> dict[str, dict[str, Any]]:
        """What the nodes with a copy told, those that did."""

        async def ask(node: str) -> tuple[str, dict[str, Any] | None]:
            try:
                return node, await calls.ask(node, "digest", {"manager": manager, "entry": entry}, ANSWER_S)
            except HoldfastError as problem:
                log.warning("message manager %s: node %s told no digest: %s", manager, node, problem)
                return node, None

        answers = await asyncio.gather(*map(ask, self._roster.nodes_of(manager)))
        return {node: told for node, told in answers if told is not None}

    async def _have_opened_anew(self, calls: NodeCalls, node: str, manager: str, entry: int | None, digest: str | None) -> bool:
        try:
            wrong = {"manager": manager, "entry": entry, "digest": digest}
            return bool(await calls.ask(node, "open_anew", wrong, ANSWER_S))
        except HoldfastError as problem:
            log.error("message manager %s: the copy of node %s differs, and is not opened anew: %s", manager, node, problem)
            return False

    # --- calls of other nodes ----------------------------------------------------------------------------------------

    async def serve_digest(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """The digest of the copy of this node at an entry, once it is applied. Unavailable if it is not known in time."""
        name, entry = arguments["manager"], arguments["entry"]
        manager = self._opened(name).manager
        assert manager is not None
        try:
            async with asyncio.timeout(ANSWER_S):
                await manager.until_applied(entry)
        except TimeoutError as problem:
            raise Unavailable(f"the copy of {name} is behind: it has applied {manager.applied:,}, not {entry:,}") from problem
        digest = manager.digests.at(entry)
        if digest is None:
            raise Unavailable(f"the copy of {name} was opened after entry {entry:,}; check again")
        return {"digest": digest, "is_primary": manager.is_primary, "epoch": manager.directory.epoch}

    async def serve_open_anew(self, arguments: dict[str, Any]) -> bool:
        """Throw the copy of this node away, if it has another digest at the entry than this; whether it did. Never a primary."""
        name, entry, right = arguments["manager"], arguments["entry"], arguments["digest"]
        member = self._opened(name)
        assert member.manager is not None
        own = member.manager.digests.at(entry)
        if own in (None, right) or member.is_primary:
            return False
        sentence = (
            f"the copy of {name} at node {self._roster.own} differs from its primary at entry {entry:,}: {own}, not {right}"
        )
        log.error("%s; it is opened anew", sentence)
        member.open_anew(Damaged(sentence))
        return True

    def _opened(self, manager: str) -> Member:
        member = self._members.get(manager)
        if member is None or member.manager is None:
            raise Unavailable(f"node {self._roster.own} has no copy of {manager} now; it may be being opened")
        return member
