"""The settings of a cluster, which are the same at all its nodes: its message managers, and its NATS servers.

    name = "shop"
    nats = ["nats://h1:4222", "nats://h2:4222", "nats://h3:4222"]
    monitors = ["http://h1:8222", "http://h2:8222", "http://h3:8222"]
    [managers]
    m1 = ["h1", "h2"]          # the nodes that have a copy, in the order in which they take over
    m2 = ["h2", "h3"]
    [placement]                # where new destinations go; others to the manager with the fewest
    "billing.*" = "m2"

A file that says something else than this is refused: a misspelt word must not leave a message manager without a backup.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from holdfast.channel.jetstream.settings import MIB, JetStreamSettings
from holdfast.cluster.places import Rule, check_rules
from holdfast.errors import BadPattern, BadSetting
from holdfast.event.pattern import Pattern
from holdfast.node.clustered.nats_login import NatsLogin, check_addresses, open_login

_NAME = re.compile(r"[A-Za-z0-9_-]{1,32}\Z")


class ClusterSettings(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    # For each message manager the nodes that have a copy of it. The first takes over first.
    managers: Mapping[str, Sequence[str]]
    nats: JetStreamSettings
    # Patterns and managers: where new destinations are placed among several.
    placement: Sequence[tuple[str, str]] = ()

    @property
    def rules(self) -> list[Rule]:
        return [Rule(Pattern.glob(pattern), manager) for pattern, manager in self.placement]


class _File(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str
    nats: tuple[str, ...]
    monitors: tuple[str, ...]
    managers: dict[str, tuple[str, ...]]
    placement: dict[str, str] = {}
    replicas: int = 3
    size_mib: int = 4096
    reserve_mib: int = 16
    upkeep_mib: int = 24
    nats_login: NatsLogin = NatsLogin()


# The keys of a file; docs/cluster.md tells them.
KEYS = _File.__struct_fields__


def read(file: Path) -> ClusterSettings:
    """The settings in a file; BadSetting, with the place, for what cannot be."""
    try:
        read = msgspec.convert(tomllib.loads(file.read_text()), _File)
    except OSError as problem:
        raise BadSetting(f"the cluster's file {file} cannot be read: {problem.strerror}", setting="cluster") from problem
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, msgspec.ValidationError) as problem:
        raise BadSetting(f"the cluster's file {file}: {problem}; look at docs/cluster.md", setting="cluster") from problem
    for name in (read.name, *read.managers, *(node for nodes in read.managers.values() for node in nodes)):
        if not _NAME.match(name):
            raise BadSetting(
                f"{file}: {name!r:.40} cannot name a cluster, manager or node; use 1 to 32 letters, digits, _ and -",
                setting="name",
            )
    for manager, nodes in read.managers.items():
        if not nodes or len(set(nodes)) < len(nodes):
            raise BadSetting(f"{file}: message manager {manager} needs one node or several different ones", setting="managers")
    if not read.managers:
        raise BadSetting(f"{file} names no message manager; name one or several under [managers]", setting="managers")
    check_addresses((*read.nats, *read.monitors))
    login = open_login(read.nats_login, file.parent)
    nats = JetStreamSettings(
        servers=read.nats,
        monitors=read.monitors,
        replicas=read.replicas,
        size_bytes=read.size_mib * MIB,
        reserve_bytes=read.reserve_mib * MIB,
        upkeep_bytes=read.upkeep_mib * MIB,
        connect_options=login.options,
        monitor_tls=login.tls,
    )
    settings = ClusterSettings(name=read.name, managers=read.managers, nats=nats, placement=tuple(read.placement.items()))
    try:
        check_rules(settings.rules, list(read.managers))
    except (BadPattern, BadSetting) as problem:
        raise BadSetting(f"{file}: {problem}", setting="placement") from problem
    return settings
