"""The surroundings of simulated processes: while a run lasts, the machine's clock and dice are simulated ones.

Nodes are given their clock (`node.clock`), but a client, an identity or a temporary name asks the machine: `time` and `secrets`.
In a run, these ask the process that has its turn. Everything else of the machine is left alone; there is one thread, no file and
no socket.
"""

from __future__ import annotations

import gc
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager

from holdfast.simulation.clusters.process import Process
from holdfast.simulation.clusters.world import World


class Surroundings:
    def __init__(self, world: World) -> None:
        self._world = world
        self._process: Process | None = None
        self._asked = 0  # how often a process has looked at the fine clock: it moves on

    def enter(self, process: Process) -> None:
        self._process = process

    @property
    def whose(self) -> str:
        return self._process.name if self._process is not None else "world"

    def _time_ns(self) -> int:
        assert self._process is not None
        return self._process.machine_ns()

    def _perf_counter(self) -> float:
        self._asked += 1
        return self._world.now_us / 1e6 + self._asked * 1e-6

    def _steady_ns(self) -> int:
        return self._world.now_us * 1000

    def _token_hex(self, nbytes: int = 32) -> str:
        return self._world.dice.randbytes(nbytes).hex()

    def _token_bytes(self, nbytes: int = 32) -> bytes:
        return self._world.dice.randbytes(nbytes)

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Simulate clock and dice of the machine for the time of a run. The garbage collector rests: when it runs would depend on
        more than the seed."""
        simulated = (
            (time, "time_ns", self._time_ns),
            (time, "monotonic_ns", self._steady_ns),
            (time, "perf_counter", self._perf_counter),
            (secrets, "token_hex", self._token_hex),
            (secrets, "token_bytes", self._token_bytes),
            (secrets, "randbits", self._world.dice.getrandbits),
        )
        real = [getattr(module, name) for module, name, _ in simulated]
        was_collecting = gc.isenabled()
        gc.disable()
        for module, name, function in simulated:
            setattr(module, name, function)
        try:
            yield
        finally:
            for (module, name, _), function in zip(simulated, real, strict=True):
                setattr(module, name, function)
            if was_collecting:
                gc.enable()
