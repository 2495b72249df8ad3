"""Orders at an exchange while carrier, listener, server and Holdfast are killed: each is there exactly once. Real processes.

The exchange takes every order that comes, also one with a key that came before: a double would be seen.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from examples.stock_order.market import NAMES, Market

pytestmark = pytest.mark.faults


@contextmanager
def buying(market: Market, key: str) -> Iterator[Callable[[], dict[str, Any]]]:
    """Send an order in a thread; its answer is asked for later."""
    with ThreadPoolExecutor(1) as thread:
        answer = thread.submit(market.buy, key)
        yield answer.result


def check(market: Market, answers: list[dict[str, Any]]) -> None:
    """One order for each answer, with the same confirmation numbers everywhere."""
    market.until_equal(len(answers))
    told = [each["confirmation"] for each in answers]
    assert sorted(each["confirmation"] for each in market.orders()) == sorted(told)
    assert len({each["key"].partition(".")[0] for each in market.orders()}) == len(told)
    assert [market.account(name)["confirmations"] for name in NAMES] == [told, told]


@pytest.mark.parametrize("is_traced", [True, False], ids=["by trace", "by turn"])
def test_a_carrier_killed_between_the_call_and_its_record_looks_the_order_up_and_does_not_send_it_again(
    tmp_path: Path, is_traced: bool
) -> None:
    with Market(tmp_path, is_traced=is_traced) as market:
        answers = []
        for turn in range(3):
            market.hold_answers(True)
            with buying(market, f"k{turn}") as answer:
                market.until(lambda turn=turn: len(market.orders()) > turn, "the exchange has the order")
                market.kill("carrier")
                market.hold_answers(False)
                market.start("carrier")
                answers.append(answer())
        check(market, answers)


@pytest.mark.parametrize("victim", ["listener-a", "server-a"])
def test_an_order_whose_listener_or_server_is_killed_while_the_exchange_has_it_is_executed_once(
    tmp_path: Path, victim: str
) -> None:
    with Market(tmp_path) as market:
        answers = [market.buy("first")]
        for turn in range(2):
            market.hold_answers(True)
            with buying(market, f"k{turn}") as answer:
                market.until(lambda turn=turn: len(market.orders()) > turn + 1, "the exchange has the order")
                market.kill(victim)
                market.start(victim)
                market.hold_answers(False)
                answers.append(answer())
            market.until_equal(len(answers))  # a server that dies of the same request twice is to be rebuilt
        check(market, answers)


def test_orders_while_everything_is_killed_in_turn_are_executed_once_each(tmp_path: Path) -> None:
    with Market(tmp_path) as market:
        answers: list[dict[str, Any]] = []
        buyer = threading.Thread(target=lambda: answers.extend(market.buy(f"k{number}") for number in range(60)))
        buyer.start()
        for victim in ("carrier", "listener-a", "server-b", "carrier", "holdfast", "listener-b"):
            seen = len(market.orders())
            market.until(lambda seen=seen: len(market.orders()) > seen + 3 or not buyer.is_alive(), "orders go on")
            market.kill(victim)
            market.start(victim)
        buyer.join()
        assert len(answers) == 60
        check(market, answers)
