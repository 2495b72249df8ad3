"""See a branch office work: a relay draws what concerns it, is killed, is cut off, and nothing is lost or twice.

    python -m examples.branch_office [--quick]          some 15 seconds; exit code 1 if anything is wrong

The head office sends orders and prices, and asks what is in stock. In Berlin people pack orders, read prices and answer. The
relay between them is killed in the middle, and the line is cut for longer than every grace. At the end the account is made: what
the head office sent, what arrived in Berlin, and what the head office was told.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
import tempfile
from collections import Counter
from pathlib import Path

import holdfast
from examples.branch_office.processes import Office
from holdfast.errors import HoldfastError, OutcomeUnknown

PAUSE_S = 0.01
CUT_S = 2.0
ARRIVE_S_MAX = 60.0


class Story:
    def __init__(self, office: Office, head: holdfast.Client, berlin: holdfast.Client, orders: int) -> None:
        self._office = office
        self._head = head
        self._berlin = berlin
        self._count = orders
        self.sent = 0
        self.packed: Counter[int] = Counter()
        self.read: Counter[int] = Counter()
        self.asked = self.answered = 0

    # --- the head office ---------------------------------------------------------------------------------------------

    async def send(self) -> None:
        for number in range(self._count):
            await self._head.queue("orders.berlin").send({"order": number}, type="order.placed")
            await self._head.topic("prices.tools").send(number, properties={"change": 0.1 if number % 2 else 0.01})
            self.sent += 1
            await asyncio.sleep(PAUSE_S)

    async def ask(self) -> None:
        """Ask for the stock, again and again; a question that the cut line delays is asked once more."""
        while self.sent < self._count:
            self.asked += 1
            with contextlib.suppress(OutcomeUnknown):
                reply = await self._head.queue("stock.berlin").request({"sku": self.asked}, timeout=5)
                self.answered += reply.data["sku"] == self.asked
            await asyncio.sleep(0.2)

    # --- Berlin ------------------------------------------------------------------------------------------------------

    async def pack(self) -> None:
        async with self._berlin.queue("orders").receive() as incoming:
            async for event in incoming:
                self.packed[event.data["order"]] += 1
                await event.confirm()

    async def read_prices(self) -> None:
        async with self._berlin.subscribe("branch.prices.**", "till") as incoming:
            async for event in incoming:
                assert event.properties["site"] == "berlin"
                self.read[event.data] += 1
                await event.confirm()

    async def answer(self) -> None:
        async with self._berlin.queue("stock").receive() as incoming:
            async for event in incoming:
                with contextlib.suppress(HoldfastError):  # who asked is gone
                    await event.reply({"sku": event.data["sku"], "left": 7})
                await event.confirm()

    # --- what happens ------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        await self._berlin.ensure_subscription("branch.prices.**", "till")
        self._office.start_relay()
        await self._until(self._is_subscribed)
        people = [asyncio.create_task(each) for each in (self.pack(), self.read_prices(), self.answer())]
        sending = [asyncio.create_task(each) for each in (self.send(), self.ask())]
        await self._until(lambda: sum(self.packed.values()) > self._count // 5)
        self.tell("the relay passes events")
        self._office.kill_relay()
        self.tell("the relay is killed")
        self._office.start_relay()
        await self._until(lambda: sum(self.packed.values()) > self._count // 2)
        self.tell("it is started again, and goes on where it was")
        self._office.stop_line(True)
        await asyncio.sleep(CUT_S)
        self.tell(f"the line is cut, for {CUT_S:g} s")
        self._office.stop_line(False)
        await asyncio.gather(*sending)
        await self._until(lambda: len(self.packed) == self._count and len(self.read) == self._count // 2)
        self.tell("the line is back, and all has arrived")
        await self._until(self._is_told)
        for task in people:
            task.cancel()
        await asyncio.gather(*people, return_exceptions=True)

    def tell(self, what: str) -> None:
        print(f"{what:<44} {self.sent:>6,} sent  {len(self.packed):>6,} packed  {len(self.read):>6,} prices read", flush=True)

    async def _is_subscribed(self) -> bool:
        return any(each["name"].startswith("relay.berlin.prices") for each in await self._head.subscriptions())

    async def _is_told(self) -> bool:
        """The head office holds nothing for Berlin any more."""
        waiting = [each["waiting"] for each in await self._head.subscriptions() if each["name"].startswith("relay.berlin.")]
        return not any(waiting) and (await self._head.describe("orders.berlin"))["waiting"] == 0

    async def _until(self, condition: object) -> None:
        async with asyncio.timeout(ARRIVE_S_MAX):
            while True:
                found = condition()  # type: ignore[operator]
                if await found if asyncio.iscoroutine(found) else found:
                    return
                await asyncio.sleep(0.02)

    async def account(self) -> int:
        """Make the account; 0 if it is right."""
        told = await self._head.describe("orders.berlin")
        twice = sum(1 for count in (*self.packed.values(), *self.read.values()) if count > 1)
        wrong = [
            line
            for line, is_right in (
                ("orders are lost", set(self.packed) == set(range(self._count))),
                ("prices are lost, or came although nobody wanted them", set(self.read) == set(range(1, self._count, 2))),
                ("something was handed out twice in Berlin", twice == 0),
                ("the head office was not told of all orders", told["confirmed"] == self._count),
                ("no question was answered", self.answered > 0),
            )
            if not is_right
        ]
        print(
            f"\norders    sent {self.sent:,}   packed {len(self.packed):,}   confirmed at the head office {told['confirmed']:,}"
        )
        print(f"prices    sent {self.sent:,}   wanted and read in Berlin {len(self.read):,}")
        print(f"questions asked {self.asked}   answered through the relay {self.answered}")
        print("account   " + ("; ".join(wrong) if wrong else "nothing lost, nothing twice"))
        return 1 if wrong else 0


async def tell(orders: int) -> int:
    with tempfile.TemporaryDirectory() as folder:
        office = Office(Path(folder))
        try:
            async with holdfast.connect(office.head_url) as head, holdfast.connect(office.berlin_url) as berlin:
                story = Story(office, head, berlin, orders)
                await story.run()
                return await story.account()
        finally:
            office.close()


def main() -> None:
    parser = argparse.ArgumentParser(description="See a branch office work behind a thin line.")
    parser.add_argument("--quick", action="store_true", help="a few seconds")
    sys.exit(asyncio.run(tell(150 if parser.parse_args().quick else 600)))


if __name__ == "__main__":
    main()
