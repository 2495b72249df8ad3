"""Prices: published by market and symbol; one worker keeps the latest of all, one hears only large jumps in Europe.

    holdfast serve
    holdfast work examples.services.prices:worker --url holdfast://localhost
    python -m examples.services.prices holdfast://localhost

Both subscriptions are durable: what is published while no worker runs is handled later.
"""

from __future__ import annotations

import sys

import msgspec

import holdfast
import holdfast.blocking

worker = holdfast.Worker()
latest: dict[str, float] = {}
alarms: list[str] = []


class Price(msgspec.Struct):
    symbol: str
    amount: float


def publish(client: holdfast.blocking.Client, market: str, price: Price, change: float) -> None:
    client.topic(f"prices.{market}.{price.symbol}").send(price, properties={"change": change})


@worker.topic("prices.>", subscription="latest")
def keep(price: Price) -> None:
    latest[price.symbol] = price.amount


@worker.topic("prices.eu.*", subscription="alarms", selector="change NOT BETWEEN -5 AND 5")
def warn(price: Price, event: holdfast.ReceivedEvent) -> None:
    alarms.append(f"{price.symbol} at {price.amount:g}, {event.properties['change']:+g} %")


if __name__ == "__main__":
    with holdfast.blocking.connect(sys.argv[1]) as client:
        publish(client, "eu", Price("SAP", 181.5), 6.2)
        publish(client, "us", Price("IBM", 214.0), -7.0)
