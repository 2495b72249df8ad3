"""The order to configure a cluster: show its configuration, or change it at all nodes, and tell which nodes have it."""

from __future__ import annotations

from typing import Any

from holdfast.node.administration.cluster_arguments import ClusterConfigure
from holdfast.node.clock import Clock
from holdfast.node.clustered.configuration.setting_kinds import all_values
from holdfast.node.clustered.configuration.shared_configuration import SharedConfiguration
from holdfast.node.clustered.orders.heard import Heard
from holdfast.node.clustered.roster import Roster

# Nodes hear of a change within a second. One that has not told by then that it has it is named.
REACH_S = 3.0


class ConfigureOrder:
    def __init__(self, configuration: SharedConfiguration, roster: Roster, heard: Heard, clock: Clock) -> None:
        self._configuration = configuration
        self._roster = roster
        self._heard = heard
        self._clock = clock

    async def carry_out(self, asked: ClusterConfigure) -> dict[str, Any]:
        """What the cluster has, after a change, if one is asked for."""
        if not asked.key:
            return {**self._shown(), **self._reached("settings_version", 0)}
        which = "users_version" if asked.key == "users" else "settings_version"
        version = await self._configuration.change(asked.key, asked.value)
        await self._heard.until(lambda: not self._reached(which, version)["not_reached"], REACH_S)
        return {**self._shown(), **self._reached(which, version)}

    def _shown(self) -> dict[str, Any]:
        configuration = self._configuration
        users = configuration.users
        return {
            "settings": all_values(configuration.settings),
            "changed": sorted(configuration.changed),
            "settings_version": configuration.settings_version,
            "users": None if users is None else sorted(users.by_name),
            "users_version": configuration.users_version,
            "essential": configuration.essential,
            "is_joined": configuration.is_joined,
        }

    def _reached(self, which: str, version: int) -> dict[str, list[str]]:
        """The nodes that have this version, and those that did not tell so: they are silent, or have not heard of it yet."""
        nodes = self._roster.told(self._clock.steady_ms())["nodes"]
        reached = [node["name"] for node in nodes if node["is_heard"] and node[which] >= version]
        return {"reached": reached, "not_reached": [node["name"] for node in nodes if node["name"] not in reached]}
