"""Alerting: five rules people really need, and events that make some of them tell.

    python -m examples.alerting

Forty disks of one site are full: that is one alert, not 120. A service has twenty errors within a minute. A queue is filled to
its high water, which the server's own log tells. The rules are in `rules.toml` beside this program; alerts go to a log file and
a queue.
"""

import asyncio
import tempfile
import time
from pathlib import Path

import holdfast
from holdfast.actions import Actions
from holdfast.actions.rules_file import RuleSet, parse

RULES = Path(__file__).with_name("rules.toml")
URL = "memory:alerting"


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        # Half a minute of gathering is long for an example.
        rules = parse(RULES.read_text().replace('gather = "30s"', 'gather = "1s"'), Path(folder))
        async with holdfast.connect(URL, name="monitoring") as client:
            await show(client, rules, Path(folder) / "alerts.log")


async def show(client: holdfast.Client, rules: RuleSet, log: Path) -> None:
    await client.create_queue("orders", events_max=10)
    async with Actions(URL, rule_set=rules) as actions:
        working = asyncio.create_task(actions.run())
        await client.topic("metrics.disk.root").send_many(
            [holdfast.Event(properties={"host": f"web-{n}", "site": "berlin", "percent": 97}) for n in range(40)] * 3
        )
        await client.topic("logs.shop").send_many(["no route"] * 20, properties={"level": "ERROR", "service": "shop"})
        await client.topic("certificates").send(
            properties={"domain": "example.com", "days_left": 40}
        )  # no alert: 40 days are long
        await client.queue("orders").send_many(["an order"] * 10)
        async with client.queue("incidents").receive() as incidents:
            incident = await incidents.next(timeout=30)
            print(f"incident: {incident.properties['site']}, {len(incident.data['keys'])} hosts")
            await incident.confirm()
        await asyncio.to_thread(print_when_written, log, 3)
        actions.stop()
        await working


def print_when_written(log: Path, lines: int) -> None:
    """Print the log when it has so many lines."""
    while not log.exists() or len(log.read_text().splitlines()) < lines:
        time.sleep(0.05)
    print("".join(sorted(log.read_text().splitlines(keepends=True))), end="")


if __name__ == "__main__":
    holdfast.run(main())
