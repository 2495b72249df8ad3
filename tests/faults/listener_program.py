"""A listener as a process of its own, for tests that kill it: `python listener_program.py URL DOMAIN SERVER CALL STORE`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from holdfast.continuity.listener.listener import Listener


async def main(url: str, domain: str, server: str, call: str, store: str) -> None:
    async with Listener(url, domain, server, call=call, store=Path(store)) as listener:
        await listener.run()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:6]))
