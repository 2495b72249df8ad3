"""Recipients that compete for one queue share what there is (B4)."""

from __future__ import annotations

import contextlib
from pathlib import Path

import holdfast
from holdfast.errors import TimedOut
from tests.running_server import running


async def test_a_recipient_with_much_credit_does_not_take_everything_from_the_others(tmp_path: Path) -> None:
    async with running(tmp_path / "data") as server, holdfast.connect(server.url) as client:
        queue = client.queue("orders")
        async with queue.receive(credit=4_000) as one, queue.receive(credit=4_000) as two, queue.receive(credit=4_000) as three:
            await queue.send_many(range(300))

            taken = []
            for incoming in (one, two, three):
                seen = 0
                with contextlib.suppress(TimedOut):
                    while True:
                        await (await incoming.next(timeout=0.3 if seen else 60)).confirm()
                        seen += 1
                taken.append(seen)

        assert sum(taken) == 300
        assert min(taken) >= 30
