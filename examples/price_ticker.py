"""A price ticker: a topic for each share, and recipients that receive from many of them without knowing their names.

    python examples/price_ticker.py [URL]

`prices.*` matches one word after the point, `prices.>` one or more words; a regular expression matches anything else. A topic
that is created later is matched from its first event on. A selector leaves out events that a recipient does not want. A durable
subscription keeps events while its recipient is away.
"""

import sys

import holdfast


async def show(title: str, incoming: holdfast.Incoming, count: int) -> None:
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
        await client.ensure_subscription("prices.AAA", "archive")
        async with client.subscribe("prices.AAA", "alarm", selector="price > 100") as alarm:
            for share, price in [("AAA", 99.5), ("BBB", 12.25), ("AAA", 101.0), ("CCC", 7.0), ("options.AAA", 3.5)]:
                await client.topic(f"prices.{share}").send(price, properties={"price": price})
            await show("one word", shares, 4)
            await show("any words", everything, 5)
            await show("AAA or BBB", two, 3)
            await show("over 100", alarm, 1)
        async with client.subscribe("prices.AAA", "archive") as archive:
            await show("kept for the archive", archive, 2)


holdfast.run(main(sys.argv[1] if len(sys.argv) > 1 else "memory:"))
