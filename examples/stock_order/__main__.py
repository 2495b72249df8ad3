"""The stock order: every order goes to two trading servers, both execute it, and the exchange sees it once.

    python -m examples.stock_order [--orders 30] [--picture stock_order.png]

While orders come in, a trading server is killed with its listener, and the carrier is killed after the exchange took an order and
before anybody recorded it. At the end: one order at the exchange for each request, and the same confirmation numbers everywhere.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

from examples.stock_order.market import NAMES, Market
from examples.stock_order.picture import Kill, Order, draw


class Story:
    def __init__(self, market: Market, count: int) -> None:
        self._market = market
        self._count = count
        self._began = time.monotonic()
        self._answers: list[tuple[str, float, float, str]] = []
        self.kills: list[Kill] = []

    def tell(self) -> None:
        third = self._count // 3
        self._buy(range(third))
        self._kill("server-b", "listener-b")
        print(f"{third} orders, then server b and its listener are killed: server a goes on")
        self._buy(range(third, 2 * third))
        self._market.start("server-b")
        self._market.start("listener-b")
        self._kill_carrier_between_call_and_record(2 * third)
        self._buy(range(2 * third + 1, self._count))
        self._market.until_equal(self._count)

    def _now(self) -> float:
        return time.monotonic() - self._began

    def _buy(self, numbers: range) -> None:
        for number in numbers:
            sent = self._now()
            answer = self._market.buy(f"order-{number}")
            self._answers.append((f"order-{number}", sent, self._now(), answer["confirmation"]))

    def _kill(self, *parts: str) -> None:
        self.kills.append(Kill(self._now(), parts[0]))
        for part in parts:
            self._market.kill(part)

    def _kill_carrier_between_call_and_record(self, number: int) -> None:
        market, before = self._market, len(self._market.orders())
        market.hold_answers(True)
        buying = threading.Thread(target=self._buy, args=(range(number, number + 1),))
        buying.start()
        market.until(lambda: len(market.orders()) > before, "the exchange has the order")
        self._kill("carrier")
        print("the exchange has an order, and the carrier is killed before it recorded that: the next one looks it up")
        market.hold_answers(False)
        market.start("carrier")
        buying.join()

    def orders(self) -> list[Order]:
        """What became of each order, with how often the exchange saw it: its confirmation number is of one order there."""
        seen = Counter(each["key"].partition(".")[0] for each in self._market.orders())
        transactions = {each["confirmation"]: each["key"].partition(".")[0] for each in self._market.orders()}
        return [Order(*each, seen[transactions.get(each[3], "")]) for each in self._answers]


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--orders", type=int, default=30)
    options.add_argument("--picture", type=Path, default=Path("stock_order.png"))
    given = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="stock-order-") as folder, Market(Path(folder)) as market:
        story = Story(market, max(6, given.orders))
        story.tell()
        orders, at_exchange = story.orders(), [each["confirmation"] for each in market.orders()]
        held = {name: market.account(name)["confirmations"] for name in NAMES}
    told = [each.confirmation for each in orders]
    is_right = told == at_exchange == held["a"] == held["b"] and all(each.at_exchange == 1 for each in orders)
    draw(orders, story.kills, given.picture)
    print(f"requests {len(told)}, orders at the exchange {len(at_exchange)}, seen twice {len(at_exchange) - len(set(told))}")
    print(f"confirmation numbers the same at clients, exchange, server a and server b: {'yes' if is_right else 'NO'}")
    print(f"drawn in {given.picture}")
    return 0 if is_right else 1


if __name__ == "__main__":
    raise SystemExit(main())
