"""A worker: handlers by decorator, retries, dead events, a transaction; run in memory here, so that it needs no server.

    python examples/worker.py

With a server, and in several processes: `holdfast work examples.worker:worker --url holdfast://127.0.0.1:7400 --processes 4`.
"""

from __future__ import annotations

import msgspec

import holdfast
from holdfast.testing import running

worker = holdfast.Worker()  # its URL comes from HOLDFAST_URL or --url


class Order(msgspec.Struct):
    sku: int
    count: int = 1


@worker.queue("orders", concurrency=4, retries=2, backoff=(0.1, 1), transactional=True)
async def invoice(order: Order, tx: holdfast.Transaction) -> None:
    if order.count > 100:
        raise ValueError(f"{order.count} are not in stock")
    await tx.queue("invoices").send({"sku": order.sku, "pieces": order.count})


@worker.queue("invoices")
def write(invoice: dict[str, int]) -> None:  # a plain function runs in a thread
    print(f"invoice for {invoice['pieces']} of {invoice['sku']}")


async def main() -> None:
    async with running(worker) as place:  # in memory; with a server it is `worker.run()`
        for order in ({"sku": 7}, {"sku": 8, "count": 3}, {"sku": 9, "count": 1000}, {"sku": "nine"}):
            await place.send("orders", order)
        await place.idle()
        for event in await place.dead():
            print(f"dead: {event.data}: {event.dead[0].reason.splitlines()[0]}")


if __name__ == "__main__":
    holdfast.run(main())
