"""A simulated process: an event loop of its own, that has a turn when the world gives it one.

    paused     has no turns; timers are late when it goes on, and what arrived meanwhile is there
    crashed    never has a turn again; what it held in memory is gone
    slow       each turn takes long

Real code runs in it unchanged. Within a turn its loop is the running one, and the machine's clock and dice are those of the
process (`surroundings`). Its steady clock is that of the world; its machine's clock may be set, forward and back.
"""

from __future__ import annotations

import asyncio
import heapq
from asyncio import events
from collections.abc import Callable, Coroutine
from typing import Any

from holdfast.simulation.clusters.world import EPOCH_US, S_US, World

# A turn takes so long, at least and at most.
TURN_US = (5, 60)
# The turns that a process has at its end, to leave everything in good order.
LAST_TURNS = 500


class SimulatedLoop(asyncio.BaseEventLoop):
    """A loop whose time is that of the world. Nobody runs it: it is given turns."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.set_debug(False)
        self._world = world

    def time(self) -> float:
        return self._world.now_us / S_US

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> Any:  # type: ignore[override]
        """There are no threads: the work is done at once."""
        done = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as problem:
            done.set_exception(problem)
        return done

    def _write_to_self(self) -> None:
        """There is no other thread that could wait for it."""

    def next_us(self) -> int | None:
        """When it has something to do; None while it has nothing to wait for."""
        if self._ready:  # type: ignore[attr-defined]
            return 0
        scheduled = self._scheduled  # type: ignore[attr-defined]
        while scheduled and scheduled[0]._cancelled:
            heapq.heappop(scheduled)._scheduled = False
        return -int(-scheduled[0].when() * S_US // 1) if scheduled else None

    def turn(self) -> None:
        """Run what is ready, and the timers that are due."""
        ready, scheduled = self._ready, self._scheduled  # type: ignore[attr-defined]
        end = self.time() + 1e-6
        while scheduled and scheduled[0].when() < end:
            timer = heapq.heappop(scheduled)
            timer._scheduled = False
            ready.append(timer)
        before = events._get_running_loop()
        events._set_running_loop(self)
        try:
            for _ in range(len(ready)):
                handle = ready.popleft()
                if not handle._cancelled:
                    handle._run()
        finally:
            events._set_running_loop(before)


class Process:
    def __init__(self, world: World, name: str, entered: Callable[[Process], None]) -> None:
        """`entered` is called before each turn, so that clock and dice are those of this process."""
        self.name = name
        self.world = world
        self.loop = SimulatedLoop(world)
        self.loop.set_exception_handler(lambda _, context: self._failed(context))
        self.is_paused = False
        self.is_dead = False
        self.slowness = 1
        self.ahead_us = 0  # of the machine's clock
        self.failures: list[str] = []
        self._entered = entered
        self._busy_until_us = 0
        self._turn_us: int | None = None
        self._tasks: list[asyncio.Task[Any]] = []

    def _failed(self, context: dict[str, Any]) -> None:
        if not self.is_dead:
            self.failures.append(f"{context.get('message')}: {context.get('exception')!r}")

    # --- turns -------------------------------------------------------------------------------------------------------

    def deliver(self, function: Callable[..., object], *arguments: Any) -> None:
        """Call a function in the next turn: something has come from outside."""
        if not self.is_dead:
            self.loop.call_soon(function, *arguments)
            self._wake(self.world.now_us)

    def start(self, work: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        task = self.loop.create_task(work, name=name)
        self._tasks.append(task)
        self._wake(self.world.now_us)
        return task

    def _wake(self, at_us: int) -> None:
        at_us = max(at_us, self._busy_until_us)
        if self._turn_us is None or at_us < self._turn_us:
            self._turn_us = at_us
            self.world.at(at_us, self._turn)

    def _turn(self) -> None:
        if self.is_dead or self.is_paused or self._turn_us is None or self.world.now_us < self._turn_us:
            return  # put on the list before it was paused, or for a timer that was cancelled since
        self._turn_us = None
        self._entered(self)
        self.loop.turn()
        self._busy_until_us = self.world.now_us + self.world.dice.randrange(*TURN_US) * self.slowness
        next_us = self.loop.next_us()
        if next_us is not None:
            self._wake(next_us)

    # --- faults ------------------------------------------------------------------------------------------------------

    def pause(self) -> None:
        self.is_paused = True

    def go_on(self) -> None:
        if self.is_paused:
            self.is_paused = False
            self._turn_us = None
            self._wake(self.world.now_us)

    def crash(self) -> None:
        self.is_dead = True

    # --- clocks ------------------------------------------------------------------------------------------------------

    def machine_ns(self) -> int:
        return (EPOCH_US + self.world.now_us + self.ahead_us) * 1000

    def steady_ns(self) -> int:
        return self.world.now_us * 1000

    # --- the end -----------------------------------------------------------------------------------------------------

    def bury(self) -> None:
        """Cancel everything that still waits, after the run, so that nothing of it is left to the garbage collector."""
        self.is_dead = True
        self._entered(self)
        for _ in range(LAST_TURNS):
            for task in asyncio.all_tasks(self.loop):
                task.cancel()
            self.loop.turn()
            if not asyncio.all_tasks(self.loop):
                break
        for task in asyncio.all_tasks(self.loop):
            task._log_destroy_pending = False  # type: ignore[attr-defined]
        self.loop.close()
