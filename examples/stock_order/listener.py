"""A listener with an egress, as a process: `python -m examples.stock_order.listener URL DOMAIN SERVER CALL STORE EGRESS_PORT`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from holdfast.continuity.listener.listener import Listener


async def main(url: str, domain: str, server: str, call: str, store: str, egress_port: str) -> None:
    egress = ("127.0.0.1", int(egress_port))
    async with Listener(url, domain, server, call=call, store=Path(store), egress=egress) as listener:
        print(f"listening for {server}", flush=True)
        await listener.run()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:7]))
