"""A producer of the demo: a shop that sells, and is paid, through every crash, and writes down what was accepted.

    python -m examples.pipeline_demo.shop URL TOPIC LOG

A line of its log is one receipt: {"destination": …, "id": …, "position": …}, as the audit reads them. It stops when its stdin is
closed, and then has a receipt for everything it ever sent.
"""

from __future__ import annotations

import asyncio
import random
import sys
import time
from pathlib import Path

import msgspec

import holdfast
from examples.demo.process import stdin_closed
from holdfast import Event

BURST = 30
PAUSE_S = 0.03
# Longer than any crash in the demo: a burst is sent again until it is accepted.
TIMEOUT_S = 120
# The bank does not answer for this part of every so many seconds: most payments fail then.
BANK_EVERY_S, BANK_AWAY_S = 12.0, 2.0
CUSTOMERS = ("ada", "bob", "cleo", "dan", "eve")


def order(dice: random.Random) -> Event:
    amount = 9_999 if dice.random() < 0.0002 else dice.randint(1, 500)
    customer = dice.choice(CUSTOMERS)
    return Event(data={"customer": customer, "amount": amount}, type="order.placed", properties={"amount": amount})


def payment(dice: random.Random) -> Event:
    is_bank_away = time.time() % BANK_EVERY_S < BANK_AWAY_S
    has_failed = dice.random() < (0.6 if is_bank_away else 0.002)
    return Event(data={"iban": dice.randint(0, 1 << 40)}, type="payment.failed" if has_failed else "payment.made")


MADE = {"shop.orders": order, "shop.payments": payment}


async def produce(url: str, topic: str, log: Path) -> None:
    stopped, dice = stdin_closed(), random.Random(7)
    with log.open("wb", buffering=0) as out:
        async with holdfast.connect(url, name=topic, timeout=TIMEOUT_S) as client:
            while not stopped.is_set():
                receipts = await client.topic(topic).send_many([MADE[topic](dice) for _ in range(BURST)], timeout=TIMEOUT_S)
                lines = [{"destination": topic, "id": each.id, "position": each.position} for each in receipts]
                out.write(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
                await asyncio.sleep(PAUSE_S)


if __name__ == "__main__":
    url, topic, log = sys.argv[1:]
    asyncio.run(produce(url, topic, Path(log)))
