"""The roster: what the heartbeats of a cluster tell of its nodes and of the copies of its message managers. Pure.

A node is known by its name: when it starts again, what it told before is forgotten. The node that keeps the roster hears itself,
too. If it does not, it is cut off, and what it knows of others is old.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from holdfast.bus.message import CopyState, Heartbeat
from holdfast.cluster.liveness import CUT_OFF_MS, FORGOTTEN_MS, SILENCE_MS


class _Heard(NamedTuple):
    heartbeat: Heartbeat
    at_ms: int


class Roster:
    def __init__(self, cluster: str, own: str, managers: Mapping[str, Sequence[str]]) -> None:
        """`own` is the name of this node. `managers`: the nodes that should have a copy of each message manager."""
        self._cluster = cluster
        self._own = own
        self._managers = managers
        self._heard: dict[str, _Heard] = {}

    def heard(self, heartbeat: Heartbeat, now_ms: int) -> None:
        self._heard[heartbeat.node] = _Heard(heartbeat, now_ms)

    def told(self, now_ms: int) -> dict[str, Any]:
        """The state of the cluster, for people and programs."""
        self._forget_lost(now_ms)
        nodes = [self._node(name, now_ms) for name in self._names()]
        own = self._heard.get(self._own)
        return {
            "cluster": self._cluster,
            "node": self._own,
            "is_cut_off": own is None or now_ms - own.at_ms >= CUT_OFF_MS,
            "nodes": nodes,
            "managers": [self._manager(name, now_ms) for name in self._managers],
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
        known = self._heard.get(name)
        return {
            "name": name,
            "is_heard": self._is_heard(name, now_ms),
            "silent_ms": None if known is None else now_ms - known.at_ms,
            "copies": [] if known is None else [copy.manager for copy in known.heartbeat.copies],
        }

    def _manager(self, name: str, now_ms: int) -> dict[str, Any]:
        copies = {
            node: copy for node, known in sorted(self._heard.items()) for copy in known.heartbeat.copies if copy.manager == name
        }
        primary = self._primary(copies, now_ms)
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

    def _primary(self, copies: Mapping[str, CopyState], now_ms: int) -> str | None:
        """Of several that say so, the one with the newest epoch: the others have not heard of it yet."""
        leading = [node for node, copy in copies.items() if copy.is_primary and self._is_heard(node, now_ms)]
        return max(leading, key=lambda node: copies[node].epoch, default=None)
