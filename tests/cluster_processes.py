"""A real cluster for tests: NATS servers, and nodes of Holdfast that are processes of their own, killed and started again."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tests.nats_server import NatsServer
from tests.server_process import ServerProcess

NODES = ("a", "b")


class ClusterProcesses:
    """One message manager with a copy at each node, or several that have them as `managers` says."""

    def __init__(
        self,
        folder: Path,
        nats: Sequence[NatsServer],
        nodes: Sequence[str] = NODES,
        grace_ms: int = 2_000,
        options: Sequence[str] = (),
        managers: Mapping[str, Sequence[str]] | None = None,
        hosts: Mapping[str, str] | None = None,
        placement: Mapping[str, str] | None = None,
    ) -> None:
        """`hosts`: the address of each node, where they are not all on this machine. `placement`: the manager of new
        destinations, by pattern."""
        self.file = folder / "cluster.toml"
        self.name = f"test-{secrets.token_hex(4)}"
        lines = {
            "name": self.name,
            "nats": [each.url for each in nats],
            "monitors": [each.monitor for each in nats],
            "replicas": len(nats),
            "size_mib": 256,
            "reserve_mib": 4,
            "upkeep_mib": 16,
        }
        text = "".join(f"{name} = {json.dumps(value)}\n" for name, value in lines.items())
        copies = "".join(f"{name} = {json.dumps(list(each))}\n" for name, each in (managers or {"m1": nodes}).items())
        rules = "".join(f"{json.dumps(name)} = {json.dumps(each)}\n" for name, each in (placement or {}).items())
        self.file.write_text(f"{text}[managers]\n{copies}[placement]\n{rules}")
        self.folder = folder
        self.options = ("--cluster", str(self.file), "--session-grace-ms", str(grace_ms), *options)
        where = hosts or dict.fromkeys(nodes, "127.0.0.1")
        self.nodes = {name: ServerProcess(folder / name, "--name", name, *self.options, host=where[name]) for name in nodes}

    def __enter__(self) -> ClusterProcesses:
        for node in self.nodes.values():
            node.start()
        return self

    def __exit__(self, *exc: object) -> None:
        for node in self.nodes.values():
            node.__exit__(*exc)

    @property
    def url(self) -> str:
        """All nodes; the first takes over first."""
        return _url(self.nodes.values())

    @property
    def beside(self) -> str:
        """All nodes, and the first, which is primary while nothing fails, comes last."""
        return _url(reversed(self.nodes.values()))


def _url(nodes: Iterable[ServerProcess]) -> str:
    return "holdfast://" + ",".join(f"{node.host}:{node.port}" for node in nodes)
