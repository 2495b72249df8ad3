"""The carrier: the one recipient of a domain's effects queue, which carries effects out at far sides.

    async with EffectCarrier("holdfast://host", "shop", [FarSide("exchange", "http://127.0.0.1:7000")]) as carrier:
        await carrier.run()

    ask ─▶ Effects (machine) ─▶ begun, durable ─▶ far side ─▶ one transaction: the result published, the asks confirmed
                    │                                                   (continuity rule 5)
                    └─▶ begun before, and no result: look it up at the far side first (32)

One at a time: a carrier holds the subscription `carrier` of the results. A second one waits until the first has gone for good;
with `take_over` it takes its place at once. A failure between Holdfast and the carrier ends its turn, and it begins the next one
by reading the results, as after a kill. Calls that are under way then go on, and the next turn takes their results.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Self

from holdfast.client.client import Client, connect
from holdfast.client.receiving.incoming import Incoming
from holdfast.continuity import register
from holdfast.continuity.domain import HISTORY, RESULTS_KEPT
from holdfast.continuity.effects.carrier_turn import Calls, CarrierTurn
from holdfast.continuity.effects.far_side import FarSide
from holdfast.errors import Closed, HoldfastError, Refused, SubscriptionInUse

log = logging.getLogger("holdfast.continuity")

TURN = "carrier"
# After a lost server of Holdfast, and while another carrier has the turn, it is tried again this much later.
AGAIN_SECONDS = 0.2
ASK_WAIT_SECONDS = 30.0


class EffectCarrier:
    """Carries the effects of one domain out. `run` works until `stop`."""

    def __init__(
        self,
        url: str,
        domain: str,
        fars: Iterable[FarSide],
        *,
        take_over: bool = False,
        ask_wait: float = ASK_WAIT_SECONDS,
        password: str | None = None,
        name: str = "",
    ) -> None:
        """`ask_wait`: seconds after which an ask that cannot be carried out is refused, and a far side is given up. `name`: for
        the status of the domain; host and process if it is not said."""
        self._url, self._domain, self._password = url, domain, password
        self._fars = {each.name: each for each in fars}
        self._take_over = take_over
        self._ask_wait = ask_wait
        self._calls = Calls()
        self.name = name or f"{socket.gethostname()}-{os.getpid()}"
        self._is_stopping = asyncio.Event()
        self.has_turn = asyncio.Event()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    async def close(self) -> None:
        """End its calls. An effect under way is looked up by the next carrier."""
        self.stop()
        for far in self._fars.values():
            far.close()

    def stop(self) -> None:
        """Let `run` return."""
        self._is_stopping.set()

    async def run(self) -> None:
        """Carry effects out until `stop`. Raises what cannot be repaired by beginning again: no such domain, no permission."""
        stopping = asyncio.create_task(self._is_stopping.wait())
        try:
            while not self._is_stopping.is_set():
                turn = asyncio.create_task(self._turn())
                try:
                    await asyncio.wait((turn, stopping), return_when=asyncio.FIRST_COMPLETED)
                    if turn.done():
                        self._judge(turn)
                        await asyncio.wait((stopping,), timeout=AGAIN_SECONDS)
                finally:
                    self.has_turn.clear()
                    turn.cancel()
                    await asyncio.gather(turn, return_exceptions=True)
        finally:
            stopping.cancel()

    def _judge(self, turn: asyncio.Task[None]) -> None:
        """A turn has ended: raise what the next one cannot repair."""
        problem = turn.exception()
        if isinstance(problem, BaseExceptionGroup):
            problem = problem.exceptions[0]
        if problem is None or isinstance(problem, SubscriptionInUse):
            return
        if isinstance(problem, Closed) or not isinstance(problem, Refused | HoldfastError):
            raise problem
        if isinstance(problem, Refused) and not self.has_turn.is_set():
            raise problem
        log.warning("the carrier of domain %s begins again: %s", self._domain, problem)

    async def _turn(self) -> None:
        async with connect(self._url, password=self._password, name="effects") as client:
            domain = await register.read(client, self._domain)
            await client.ensure_subscription(domain.results, HISTORY, selector=RESULTS_KEPT)
            async with self._place(client, domain.results) as place:
                turn = CarrierTurn(client, domain, self._fars, self._calls, self._ask_wait)
                await turn.read_results()
                await turn.read_members()
                self.has_turn.set()
                await turn.run(place, self.name)

    def _place(self, client: Client, results: str) -> Incoming:
        take_over, self._take_over = self._take_over, False  # once: then it has the turn, and may lose it to another
        return client.subscribe(results, TURN, take_over=take_over)


async def run_until_signal(carrier: EffectCarrier, announce: Callable[[], None]) -> None:
    """Carry effects out until SIGTERM or SIGINT. `announce` is told when the carrier has its first turn."""
    loop = asyncio.get_running_loop()
    for each in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(each, carrier.stop)
    turn = asyncio.create_task(carrier.has_turn.wait())
    turn.add_done_callback(lambda task: None if task.cancelled() else announce())
    try:
        async with carrier:
            await carrier.run()
    finally:
        turn.cancel()
