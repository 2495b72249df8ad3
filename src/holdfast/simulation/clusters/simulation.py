"""One run of a simulated cluster: it starts, works under faults, is healed, and everything is accounted for.

    start ─▶ work, with faults ─▶ healed ─▶ until everything accepted has arrived ─▶ quiet for a while ─▶ the promises are checked

A run that does not come to its end within a minute after it was healed is a broken promise, too: somebody hangs.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

from holdfast.node.settings import NodeSettings
from holdfast.simulation.clusters.channel_servers import ChannelServers
from holdfast.simulation.clusters.faults import Faults
from holdfast.simulation.clusters.network import CALM, Network, Weather
from holdfast.simulation.clusters.process import Process
from holdfast.simulation.clusters.programs import ClientHost, Observer
from holdfast.simulation.clusters.simulated_bus import SimulatedBus
from holdfast.simulation.clusters.simulated_node import SimulatedNode
from holdfast.simulation.clusters.surroundings import Surroundings
from holdfast.simulation.clusters.world import S_US, World

MANAGER = "m1"
NODES = ("a", "b", "c")
CLIENTS = ("one", "two")
# A cluster that is whole is ready within this, and everything is delivered within the other.
START_S = 30
END_S = 60
# Nobody gets anything again for so long after the end.
QUIET_S = 1
# What is logged here as an error is a fault of ours, which a run must not have.
FAULTS_OF_OURS = ("holdfast.supervision", "holdfast.bus", "holdfast.link")
GRACE_MS = 5_000
# How long a cluster works under faults, if nothing else is said; and how often progress is told.
WORK_S = 3.0
PROGRESS_S = 10

Progress = Callable[["Simulation"], None]


@dataclass
class Outcome:
    """What became of a run."""

    seed: int
    broken: list[str]  # promises, in words; none if all are kept
    digest: str
    seconds: float  # of simulated time
    accepted: int
    delivered: int
    duplicates: int
    moved: int
    trouble: int
    takeovers: int
    faults: list[str] = field(default_factory=list)
    last_lines: list[str] = field(default_factory=list)

    @property
    def is_kept(self) -> bool:
        return not self.broken

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "is_kept": self.is_kept}


class Simulation:
    def __init__(self, seed: int, work_s: float = WORK_S, progress: Progress = lambda simulation: None) -> None:
        """`work_s` is how long the cluster works under faults, in simulated time, and `progress` is called each ten of them."""
        self.world = World(seed)
        self._seed = seed
        self._work_s = work_s
        self._progress = progress
        self._surroundings = Surroundings(self.world)
        self._processes: list[Process] = []
        self._errors: list[str] = []
        self._network = Network(self.world, CALM)
        self._channels = {MANAGER: ChannelServers(self.world, MANAGER)}
        self._weather = Weather.drawn(self.world.dice)
        self.observer = Observer()
        managers = {MANAGER: NODES[: self.world.dice.choice((2, 2, 3))]}
        bus = SimulatedBus(self.world, self._network)
        self.nodes = [
            SimulatedNode(name, number, managers, self._settings(name), bus, self._channels, self._process)
            for number, name in enumerate(NODES, 1)
        ]
        listeners = [node.listener for node in self.nodes]
        self.clients = [ClientHost(name, self.observer, self._network, listeners, self._process) for name in CLIENTS]
        self.faults = Faults(self.world, self._network, self.nodes, self.clients, list(self._channels.values()))

    def _settings(self, name: str) -> NodeSettings:
        return NodeSettings(name=name, session_grace_ms=GRACE_MS, heartbeat_ms=1_000, snapshot_bytes=8 << 10)

    def _process(self, name: str) -> Process:
        made = Process(self.world, name, self._surroundings.enter)
        self._processes.append(made)
        return made

    # --- the run -----------------------------------------------------------------------------------------------------

    def run(self) -> Outcome:
        with self._surroundings.installed(), self._listening():
            try:
                self._run()
            except Exception as problem:  # of the simulation itself
                self._errors.append(f"the simulation failed: {problem!r}")
                raise
            finally:
                broken, takeovers = self._broken(), self._takeovers()
                for process in self._processes:
                    process.bury()
        verdict = self.observer.account.verdict()
        return Outcome(
            self._seed, broken, self.world.trace.digest(), self.world.now_us / S_US,
            verdict.accepted, verdict.delivered, verdict.duplicates, self.observer.moved, self.observer.trouble,
            takeovers, self.faults.done, list(self.world.trace.lines) if broken else [],
        )  # fmt: skip

    def _run(self) -> None:
        for node in self.nodes:
            node.start()
        for client in self.clients:
            client.start()
        if not self._go_on(lambda: self.clients[0].is_subscribed, START_S):
            self._errors.append(f"nobody could subscribe within {START_S} s of the start")
            return
        self.observer.may_send = True
        self._network.weather = self._weather
        self.faults.plan(int(self._work_s * S_US))
        for done_s in range(0, math.ceil(self._work_s), PROGRESS_S):
            self._go_on(lambda: False, min(PROGRESS_S, self._work_s - done_s))
            self._progress(self)
        self.faults.heal()
        self._network.weather = CALM
        self.observer.is_ending = True
        if not self._go_on(self._is_finished, END_S):
            self._errors.append(f"not everything has ended {END_S} s after the cluster was healed: {self._unfinished()}")
        self._go_on(lambda: False, QUIET_S)

    def _go_on(self, until: Callable[[], bool], seconds: float) -> bool:
        return self.world.run(until, self.world.now_us + int(seconds * S_US))

    def _is_finished(self) -> bool:
        return all(client.has_sent_all for client in self.clients) and not self.observer.missing()

    def _unfinished(self) -> str:
        sending = [client.name for client in self.clients if not client.has_sent_all]
        return f"{', '.join(sending) or 'nobody'} still sends, {self.observer.missing()} events have not arrived"

    # --- what came of it ---------------------------------------------------------------------------------------------

    def _broken(self) -> list[str]:
        verdict = self.observer.account.verdict()
        found = [*self._errors, *self.observer.problems]
        found += [] if verdict.is_kept else [str(verdict)]
        found += self.observer.transfers.broken(self.observer.moved_events())
        found += self._unlike()
        return found + [f"{each.name}: {failure}" for each in self._processes for failure in each.failures]

    def _unlike(self) -> list[str]:
        """Copies of a message manager that are not equal at the same entry."""
        seen: dict[tuple[str, int], tuple[str, str]] = {}
        found = []
        for node in self.nodes:
            for manager, (applied, digest) in node.digests().items():
                other = seen.setdefault((manager, applied), (digest, node.name))
                if other[0] != digest:
                    found.append(f"the copies of {manager} at {node.name} and {other[1]} differ at entry {applied}")
        return found

    def _takeovers(self) -> int:
        """How often a primary was followed by another: the epoch counts them, and the first."""
        members = [member for node in self.nodes if node.node is not None for member in node.node.members.values()]
        return max((member.manager.directory.epoch - 1 for member in members if member.manager is not None), default=0)

    @contextmanager
    def _listening(self) -> Iterator[None]:
        """Take what is logged into the trace; what tells of a fault of ours breaks the run."""
        log = logging.getLogger("holdfast")
        handler = _Listener(self)
        was, log.propagate = (log.propagate, log.level), False
        log.setLevel(logging.WARNING)
        log.addHandler(handler)
        try:
            yield
        finally:
            log.removeHandler(handler)
            log.propagate, level = was
            log.setLevel(level)

    def heard(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.ERROR and record.name in FAULTS_OF_OURS:
            self._errors.append(f"{self._surroundings.whose}: {record.getMessage()}")
        self.world.note(self._surroundings.whose, f"[{record.levelname}] {record.getMessage()}")


class _Listener(logging.Handler):
    def __init__(self, simulation: Simulation) -> None:
        super().__init__()
        self._simulation = simulation

    def emit(self, record: logging.LogRecord) -> None:
        self._simulation.heard(record)
