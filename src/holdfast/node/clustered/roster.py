"""The roster: what the heartbeats of a cluster tell of its nodes and of the copies of its message managers. Pure.

A node is known by its name: when it starts again, what it told before is forgotten. The node that keeps the roster hears itself,
too. If it does not, it is cut off, and what it knows of others is old.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from holdfast.bus.message import CopyState, Heartbeat
from holdfast.cluster.liveness import CUT_OFF_MS, FORGOTTEN_MS, SILENCE_MS
from holdfast.cluster.succession import Standing
from holdfast.errors import BadSetting


class _Heard(NamedTuple):
    heartbeat: Heartbeat
    at_ms: int


class Roster:
    def __init__(self, cluster: str, own: str, managers: Mapping[str, Sequence[str]]) -> None:
        """`own` is the name of this node. `managers`: the nodes that should have a copy of each message manager."""
        self._cluster = cluster
        self.own = own
        self._managers = managers
        self._heard: dict[str, _Heard] = {}

    def heard(self, heartbeat: Heartbeat, now_ms: int) -> None:
        self._heard[heartbeat.node] = _Heard(heartbeat, now_ms)

    def told(self, now_ms: int) -> dict[str, Any]:
        """The state of the cluster, for people and programs."""
        self._forget_lost(now_ms)
        nodes = [self._node(name, now_ms) for name in self._names()]
        own = self._heard.get(self.own)
        return {
            "cluster": self._cluster,
            "node": self.own,
            "is_cut_off": own is None or now_ms - own.at_ms >= CUT_OFF_MS,
            "nodes": nodes,
            "managers": [self._manager(name, now_ms) for name in self._managers],
            "different": [node["name"] for node in nodes if node["is_different"]],
            "silent": [node["name"] for node in nodes if not node["is_heard"]],
        }

    def _names(self) -> list[str]:
        named = (node for nodes in self._managers.values() for node in nodes)
        return sorted({*named, *self._heard})

    def _forget_lost(self, now_ms: int) -> None:
        """Forget nodes that were silent for very long; those that are named in the settings are shown all the same."""
        self._heard = {name: each for name, each in self._heard.items() if now_ms - each.at_ms < FORGOTTEN_MS}

    def _is_heard(self, name: str, now_ms: int) -> bool:
        return name in self._heard and now_ms - self._heard[name].at_ms < SILENCE_MS

    def _node(self, name: str, now_ms: int) -> dict[str, Any]:
        known, own = self._heard.get(name), self._heard.get(self.own)
        return {
            "name": name,
            "is_heard": self._is_heard(name, now_ms),
            "silent_ms": None if known is None else now_ms - known.at_ms,
            "copies": [] if known is None else [copy.manager for copy in known.heartbeat.copies],
            "is_drained": known is not None and known.heartbeat.is_drained,
            "links": 0 if known is None else known.heartbeat.links,
            "is_different": known is not None
            and own is not None
            and known.heartbeat.configuration != own.heartbeat.configuration,
            "settings_version": 0 if known is None else known.heartbeat.settings_version,
            "users_version": 0 if known is None else known.heartbeat.users_version,
        }

    def _manager(self, name: str, now_ms: int) -> dict[str, Any]:
        copies = self._copies(name)
        primary = self.primary(name, now_ms)
        durable = max((copy.durable for copy in copies.values()), default=0)
        return {
            "name": name,
            "primary": primary,
            "epoch": max((copy.epoch for copy in copies.values()), default=0),
            "applied": 0 if primary is None else copies[primary].applied,
            "durable": durable,
            "copies": [
                {
                    "node": node,
                    "is_primary": node == primary,
                    "is_heard": self._is_heard(node, now_ms),
                    "epoch": copy.epoch,
                    "applied": copy.applied,
                    "durable": copy.durable,
                    "lag": max(0, durable - copy.applied),
                }
                for node, copy in copies.items()
            ],
            "missing": [node for node in self._managers[name] if node not in copies],
        }

    # --- of one message manager --------------------------------------------------------------------------------------

    def nodes_of(self, manager: str) -> Sequence[str]:
        """The nodes that should have a copy, by rank. BadSetting for a message manager that there is not."""
        if manager not in self._managers:
            raise BadSetting(
                f"there is no message manager {manager!r:.40}; there are: {', '.join(self._managers)}", setting="manager"
            )
        return self._managers[manager]

    def _copies(self, manager: str) -> dict[str, CopyState]:
        beats = ((node, known.heartbeat) for node, known in sorted(self._heard.items()))
        return {node: copy for node, beat in beats for copy in beat.copies if copy.manager == manager}

    def epoch(self, manager: str) -> int:
        return max((copy.epoch for copy in self._copies(manager).values()), default=0)

    def standings(self, manager: str, now_ms: int) -> dict[str, Standing]:
        """The copies that were heard of, by node."""
        found = {}
        for node, copy in self._copies(manager).items():
            beat = self._heard[node].heartbeat
            behind = max(0, copy.durable - copy.applied)
            found[node] = Standing(node, beat.start, copy.epoch, behind, self._is_heard(node, now_ms), beat.is_drained)
        return found

    def primary(self, manager: str, now_ms: int) -> str | None:
        """Of several that say so, the one with the newest epoch: the others have not heard of it yet."""
        copies = self._copies(manager)
        leading = [node for node, copy in copies.items() if copy.is_primary and self._is_heard(node, now_ms)]
        return max(leading, key=lambda node: copies[node].epoch, default=None)
