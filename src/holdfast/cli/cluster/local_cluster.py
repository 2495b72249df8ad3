"""A cluster on this machine: NATS servers and nodes as children of this process, started again when they end.

    NATS servers start ─▶ all are healthy ─▶ nodes start ─▶ a node hears all others, and of a primary ─▶ ready
    told to stop ─▶ nodes stop ─▶ NATS servers stop

Each child is in a session of its own: Ctrl-C at the terminal reaches this process alone, which stops them in order. When this
process is killed, the kernel kills them all (`child.die_with_parent`).
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import holdfast
from holdfast.cli.cluster import nats_servers
from holdfast.cli.cluster.layout import HOST, Layout, cluster_file
from holdfast.cli.programs.child import ChildProgram, Children, guarded_command, holdfast_command
from holdfast.errors import HoldfastError, Unavailable

START_S_MAX = 60.0
LOOK_S = 0.1
ASK_S_MAX = 5.0


class LocalCluster:
    def __init__(self, folder: Path, layout: Layout) -> None:
        self._folder = folder
        self._layout = layout
        self._rows: list[dict[str, Any]] = []
        nats = nats_servers.program() if layout.nats else ""
        self._nats = [
            self._child(
                each.name,
                guarded_command(nats, "-c", str(nats_servers.write_settings(folder, layout, each))),
                f"nats://{HOST}:{each.port}",
                folder / each.name / "nats.log",
            )
            for each in layout.nats
        ]
        options = ("--cluster", str(cluster_file(folder)))
        self._nodes = [
            self._child(
                each.name,
                holdfast_command(
                    "serve", *options, "--name", each.name, "--data", str(folder / each.name), "--listen", f"{HOST}:{each.port}"
                ),
                f"holdfast://{HOST}:{each.port}",
                folder / f"{each.name}.log",
            )
            for each in layout.nodes
        ]

    def _child(self, name: str, command: list[str], address: str, log: Path) -> ChildProgram:
        child = ChildProgram(name, command, os.environ, log)
        child.shown |= {"address": address, "log": str(log)}
        return child

    async def run(self, stop: asyncio.Event, ready: Callable[[dict[str, Any]], None]) -> None:
        """Run until `stop` is set. `ready` is told what runs where, once everything does; Unavailable when it does not."""
        nats, nodes = Children(self._nats), Children(self._nodes)
        try:
            nats.start(self._rows)
            await self._until(self._missing_nats, stop)
            nodes.start(self._rows)
            await self._until(self._missing_nodes, stop)
            if not stop.is_set():
                ready({"url": self._layout.url, "programs": self._rows})
            await stop.wait()
        finally:
            await nodes.close()
            await nats.close()

    async def _until(self, missing: Callable[[], Awaitable[str]], stop: asyncio.Event) -> None:
        """Return when nothing is missing, or when it is told to stop."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + START_S_MAX
        while not stop.is_set() and (what := await missing()):
            if loop.time() > deadline:
                raise Unavailable(
                    f"the cluster did not start within {START_S_MAX:g} s: {what}; look at the logs in {self._folder}"
                )
            await asyncio.sleep(LOOK_S)

    async def _missing_nats(self) -> str:
        unready = await asyncio.to_thread(nats_servers.unready, self._layout.monitors)
        return f"NATS is not healthy at {', '.join(unready)}" if unready else ""

    async def _missing_nodes(self) -> str:
        for node in self._layout.nodes:
            try:
                _, writer = await asyncio.open_connection(HOST, node.port)
            except OSError as problem:
                return f"{node.name} does not listen ({problem.strerror})"
            writer.close()
        try:
            async with holdfast.connect(self._layout.url, name="cluster up", timeout=ASK_S_MAX) as client:
                told = await client.cluster_status()
        except HoldfastError as problem:
            return str(problem)
        heard = {node["name"] for node in told["nodes"] if node["is_heard"]}
        silent = [node.name for node in self._layout.nodes if node.name not in heard]
        without = [manager["name"] for manager in told["managers"] if manager["primary"] is None]
        if silent:
            return f"{', '.join(silent)} is not heard by the others"
        return f"message manager {', '.join(without)} has no primary" if without else ""
