"""The layout of a cluster on one machine: which programs run, at which ports, in which files.

DIR/layout.json            this layout, written once; the same ports at every start
DIR/cluster.toml           the settings of the cluster, for its nodes (`holdfast serve --cluster`)
DIR/nats1/nats.conf        the settings of a NATS server; its streams are in DIR/nats1/store
DIR/nats1/nats.log
DIR/node1/                 the data folder of a node: its identity
DIR/node1.log
DIR/running                the process that runs all of this, locked while it does (`run_lock`)
"""

from __future__ import annotations

import contextlib
import json
import random
import secrets
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from holdfast.errors import BadSetting

HOST = "127.0.0.1"
NODES_DEFAULT, BACKUPS_DEFAULT, NODES_MAX = 3, 1, 32
NATS_SERVERS = 3
MONITOR_PORT_DEFAULT = 8222
# Of all events that wait. NATS sets nothing aside: it takes what is used, three times.
SIZE_MIB = 1024
# The system gives no port below these to an outgoing connection, which could have it when a server starts again.
PORTS = range(10_000, 32_000)


class NatsPlace(msgspec.Struct, frozen=True):
    """A NATS server of this cluster, and its ports."""

    name: str
    port: int
    monitor_port: int
    route_port: int


class NodePlace(msgspec.Struct, frozen=True):
    name: str
    port: int


class Layout(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str
    nodes: tuple[NodePlace, ...]
    backups: int
    managers: int = 1
    nats: tuple[NatsPlace, ...]  # that run with the cluster; none where others run them
    servers: tuple[str, ...]
    monitors: tuple[str, ...]

    @property
    def url(self) -> str:
        return "holdfast://" + ",".join(f"{HOST}:{node.port}" for node in self.nodes)

    def cluster_toml(self) -> str:
        settings = {
            "name": self.name,
            "nats": list(self.servers),
            "monitors": list(self.monitors),
            "replicas": NATS_SERVERS if len(self.servers) >= NATS_SERVERS else 1,
            "size_mib": SIZE_MIB,
        }
        lines = [f"{name} = {json.dumps(value)}" for name, value in settings.items()]
        managers = [f"m{number + 1} = {json.dumps(self._copies(number))}" for number in range(self.managers)]
        return "\n".join([*lines, "[managers]", *managers, ""])

    def _copies(self, number: int) -> list[str]:
        """The nodes that have a copy of the manager of this number. Each begins one node further on: primaries and backups are
        spread."""
        return [self.nodes[(number + rank) % len(self.nodes)].name for rank in range(1 + self.backups)]


def layout_file(folder: Path) -> Path:
    return folder / "layout.json"


def cluster_file(folder: Path) -> Path:
    return folder / "cluster.toml"


def read(folder: Path) -> Layout:
    """The layout of a folder; BadSetting when there is none, or one that cannot be read."""
    file = layout_file(folder)
    try:
        return msgspec.json.decode(file.read_bytes(), type=Layout)
    except FileNotFoundError as problem:
        raise BadSetting(
            f"there is no cluster in {folder}; start one with `holdfast cluster up --data {folder}`", setting="data"
        ) from problem
    except (OSError, msgspec.DecodeError) as problem:
        raise BadSetting(f"{file} cannot be read: {problem}; choose another folder with --data", setting="data") from problem


def prepare(
    folder: Path,
    nodes: int | None,
    backups: int | None,
    servers: Sequence[str],
    monitors: Sequence[str],
    managers: int | None = None,
) -> Layout:
    """The layout that is in the folder, or a new one; BadSetting when what is asked for differs from what is there."""
    if layout_file(folder).exists():
        found = read(folder)
        _check_same(folder, found, nodes, backups, servers, managers)
        return found
    layout = _new(NODES_DEFAULT if nodes is None else nodes, backups, tuple(servers), tuple(monitors), managers or 1)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        cluster_file(folder).write_text(layout.cluster_toml())
        layout_file(folder).write_bytes(msgspec.json.encode(layout))
    except OSError as problem:
        raise BadSetting(
            f"{folder} cannot be written: {problem.strerror}; choose another with --data", setting="data"
        ) from problem
    return layout


def _check_same(
    folder: Path, found: Layout, nodes: int | None, backups: int | None, servers: Sequence[str], managers: int | None
) -> None:
    asked = {
        "--nodes": (nodes, len(found.nodes)),
        "--backups": (backups, found.backups),
        "--managers": (managers, found.managers),
    }
    for option, (given, there) in asked.items():
        if given is not None and given != there:
            raise BadSetting(
                f"the cluster in {folder} was made with {option} {there}, not {given}; leave {option} out, or choose another "
                "folder with --data",
                setting=option.lstrip("-"),
            )
    if servers and tuple(servers) != found.servers:
        raise BadSetting(
            f"the cluster in {folder} was made with the NATS servers {', '.join(found.servers)}; leave --nats out, or choose "
            "another folder with --data",
            setting="nats",
        )


def _new(nodes: int, backups: int | None, servers: tuple[str, ...], monitors: tuple[str, ...], managers: int) -> Layout:
    backups = min(BACKUPS_DEFAULT, nodes - 1) if backups is None else backups
    if backups >= nodes:
        raise BadSetting(
            f"--backups {backups} needs {backups + 1} nodes, and there are {nodes}: each copy is at a node of its own",
            setting="backups",
        )
    if monitors and not servers:
        raise BadSetting("--monitors is for NATS servers that others run; name them with --nats", setting="monitors")
    ports = _free_ports()
    numbers = range(1, NATS_SERVERS + 1) if not servers else ()
    nats = tuple(NatsPlace(f"nats{number}", next(ports), next(ports), next(ports)) for number in numbers)
    return Layout(
        name=f"local-{secrets.token_hex(4)}",
        nodes=tuple(NodePlace(f"node{number}", next(ports)) for number in range(1, nodes + 1)),
        backups=backups,
        managers=managers,
        nats=nats,
        servers=servers or tuple(f"nats://{HOST}:{each.port}" for each in nats),
        monitors=monitors or _monitors_of(servers) or tuple(f"http://{HOST}:{each.monitor_port}" for each in nats),
    )


def _monitors_of(servers: Sequence[str]) -> tuple[str, ...]:
    """Where NATS servers answer, unless they are told otherwise."""
    return tuple(f"http://{urlsplit(server).hostname}:{MONITOR_PORT_DEFAULT}" for server in servers)


def _free_ports() -> Iterator[int]:
    """Ports that nobody listens at now, each once."""
    given: set[int] = set()
    while True:
        port = random.SystemRandom().choice(PORTS)
        if port in given:
            continue
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind((HOST, port))
            given.add(port)
            yield port
