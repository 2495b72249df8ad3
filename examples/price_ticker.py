"""A price ticker: a topic for each share, and recipients that want many of them without knowing their names.

    python examples/price_ticker.py [URL]

`prices.*` matches one word after the point, `prices.>` any number of words; a regular expression says the rest. A topic that is
created later is matched from its first event on. A selector leaves out what a recipient does not want; a durable subscription
remembers while its recipient is away.
"""

import asyncio
import sys

import holdfast
from holdfast.client.recipient import Incoming


async def show(title: str, incoming: Incoming, count: int) -> None:
    shown = []
    for _ in range(count):
        tick = await incoming.next(timeout=10)
        shown.append(f"{tick.destination.removeprefix('prices.')} {tick.data}")
        await tick.confirm()
    print(f"{title}: {', '.join(shown)}")


async def main(url: str) -> None:
    async with (
        holdfast.connect(url, name="price_ticker") as client,
        client.subscribe("prices.*") as shares,
        client.subscribe("prices.>") as everything,
        client.subscribe(regex=r"prices\.(AAA|BBB)") as two,
    ):
        await client.create_topic("prices.AAA")
        await client.create_subscription("prices.AAA", "archive")
        async with client.subscribe("prices.AAA", "alarm", selector="price > 100") as alarm:
            for share, price in [("AAA", 99.5), ("BBB", 12.25), ("AAA", 101.0), ("CCC", 7.0), ("options.AAA", 3.5)]:
                await client.topic(f"prices.{share}").send(price, properties={"price": price})
            await show("one word", shares, 4)
            await show("any words", everything, 5)
            await show("AAA or BBB", two, 3)
            await show("over 100", alarm, 1)
        async with client.subscribe("prices.AAA", "archive") as archive:
            await show("kept for the archive", archive, 2)


asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "memory:"))
