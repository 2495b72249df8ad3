"""An order in several steps, each all or nothing: stock is reserved, money is taken, or the reservation is undone.

    python examples/order_saga.py [URL]

Every step confirms an event and sends the next one in a single transaction: both happen, or neither. A step that raises is
rolled back: nobody sees what it sent, and its event comes again. So an order is never lost between two steps, and never carried
on twice, whatever crashes.

    orders ─▶ reserve stock ─▶ charges ─▶ take the money ─▶ shipments
                   ▲                            │ refused
                   └──────── undo ◀─────────────┘
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import holdfast

# The books of each step; in a real program, a database with transactions.
STOCK = {"tea": 2}
CREDIT = {"ada": 100, "bob": 0}
Step = Callable[[dict[str, Any], holdfast.Transaction], Awaitable[None]]
crashes = ["the printer is on fire"]  # once, in the middle of a step


async def reserve(order: dict[str, Any], tx: holdfast.Transaction) -> None:
    if STOCK[order["item"]] == 0:
        await tx.queue("closed").send(order | {"state": "sold out"})
    else:
        STOCK[order["item"]] -= 1
        await tx.queue("charges").send(order)


async def charge(order: dict[str, Any], tx: holdfast.Transaction) -> None:
    if CREDIT[order["who"]] < 10:
        await tx.queue("undo").send(order)
    else:
        await tx.queue("shipments").send(order)
        if crashes:
            raise RuntimeError(crashes.pop())  # nothing is shipped, and the charge comes again
        CREDIT[order["who"]] -= 10


async def undo(order: dict[str, Any], tx: holdfast.Transaction) -> None:
    STOCK[order["item"]] += 1
    await tx.queue("closed").send(order | {"state": "not paid"})


async def ship(order: dict[str, Any], tx: holdfast.Transaction) -> None:
    await tx.queue("closed").send(order | {"state": "shipped"})


async def carry_out(client: holdfast.Client, queue: str, step: Step) -> None:
    """One step, for ever, in a session of its own: a rollback concerns nobody else."""
    async with client.session(name=queue) as session, session.queue(queue).receive(credit=1) as incoming:
        async for event in incoming:
            try:
                async with session.transaction() as tx:
                    await tx.confirm(event)
                    await step(event.data, tx)
            except RuntimeError as problem:
                print(f"rolled back: {problem}")


async def main(url: str) -> None:
    async with holdfast.connect(url, name="order_saga") as client:
        steps = {"orders": reserve, "charges": charge, "undo": undo, "shipments": ship}
        running = [asyncio.create_task(carry_out(client, queue, step)) for queue, step in steps.items()]
        async with client.queue("closed").receive(confirm="auto") as closed:
            for who in ("ada", "bob", "ada", "ada"):
                await client.queue("orders").send({"who": who, "item": "tea"})
                order = (await closed.next(timeout=10)).data
                print(f"{order['who']}: {order['state']}")
        print(f"left: {STOCK['tea']} tea, ada has {CREDIT['ada']}")
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


holdfast.run(main(sys.argv[1] if len(sys.argv) > 1 else "memory:"))
