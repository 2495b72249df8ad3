"""An exchange in a thread of the test, and carriers before it: for tests that count orders."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from examples.stock_order.exchange import Exchange, open_on
from holdfast.continuity.effects.carrier import EffectCarrier
from holdfast.continuity.effects.far_side import FarSide


class OpenExchange:
    def __init__(self, exchange: Exchange, port: int) -> None:
        self.exchange = exchange
        self.port = port
        self.url = f"http://127.0.0.1:{port}"

    @property
    def orders(self) -> list[dict[str, Any]]:
        return self.exchange.all()

    @property
    def keys(self) -> list[str]:
        return [each["key"] for each in self.orders]


@contextmanager
def open_exchange(port: int = 0) -> Iterator[OpenExchange]:
    server, exchange = open_on(port)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield OpenExchange(exchange, server.server_port)
    finally:
        exchange.is_open.set()
        server.shutdown()
        server.server_close()
        thread.join()


@asynccontextmanager
async def carrying(url: str, far: str, domain: str = "shop", ask_wait: float = 30.0, **how: Any) -> AsyncIterator[EffectCarrier]:
    """A carrier to the far side `exchange` at this URL, when it has the turn."""
    async with EffectCarrier(url, domain, [FarSide("exchange", far, **how)], ask_wait=ask_wait) as carrier:
        task = asyncio.create_task(carrier.run())
        turn = asyncio.create_task(carrier.has_turn.wait())
        await asyncio.wait((task, turn), return_when=asyncio.FIRST_COMPLETED)
        try:
            yield carrier
        finally:
            turn.cancel()
            carrier.stop()
            await task
