"""The state of a set of rules, as its server knows it: what waits for each rule and action, and what could not be done."""

from __future__ import annotations

from typing import TypedDict

from holdfast.actions.machines.sharing import Table
from holdfast.actions.names import OWNER, PREFIX, Names
from holdfast.actions.running import arrangement
from holdfast.actions.running.record_queue import read
from holdfast.client.client import Client
from holdfast.client.description import DestinationDescription
from holdfast.errors import NoSuchDestination


class ActionReport(TypedDict):
    action: str
    waiting: int
    dead: int  # alerts that were given up and wait in `_DMQ`


class RuleReport(TypedDict):
    rule: str
    events_waiting: int
    shared_with: int  # other rules that read the same subscription
    since: str
    actions: list[ActionReport]


class Report(TypedDict):
    name: str
    is_running: bool
    is_settled: bool
    rules: list[RuleReport]


async def sets(client: Client) -> list[str]:
    """The names of all sets of rules at this server."""
    rows = await client.destinations()
    words = [row["name"].split(".") for row in rows]
    return sorted(each[1] for each in words if len(each) == 3 and each[0] == PREFIX and each[2] == "rules")


async def report(client: Client, name: str) -> Report:
    """NoSuchDestination if there never were rules of this name."""
    names = Names(name)
    table = await _table(client, names)
    queues = {row["name"]: row for row in await client.destinations()}
    dead = {(row["destination"]): row["events"] for row in (await client.status()).get("dead", [])}
    waiting = {row["name"]: row["waiting"] for row in await client.subscriptions()}
    owners = (await client.describe(names.tick)).get("subscriptions", [])
    return {
        "name": name,
        "is_running": any(row["name"] == OWNER and row["receivers"] for row in owners),
        "is_settled": table.is_settled,
        "rules": [_rule(names, table, rule, queues, dead, waiting) for rule in sorted(table.rules)],
    }


async def _table(client: Client, names: Names) -> Table:
    newest = Table()
    try:
        async with client.queue(names.rules).browse() as events:
            async for event in events:
                if event.type == arrangement.TABLE_TYPE:
                    newest = max(newest, read(arrangement.decode, event), key=lambda table: table.version)
    except NoSuchDestination as problem:
        raise NoSuchDestination(
            f"there are no rules {names.program!r} at this server; `holdfast actions rules.toml` begins them", name=names.rules
        ) from problem
    return newest


def _rule(
    names: Names,
    table: Table,
    rule: str,
    queues: dict[str, DestinationDescription],
    dead: dict[str, int],
    waiting: dict[str, int],
) -> RuleReport:
    from holdfast.actions.alert import time_text

    placed = table.rules[rule]
    source = table.sources[placed.source]
    begin = names.action(rule, "")
    own = [queue for queue in placed.queues if queue.startswith(begin)]
    if source.match == "queue":
        events = queues[source.pattern]["waiting"] if source.pattern in queues else 0
    else:
        events = waiting.get(names.subscription(placed.source), 0)
    return {
        "rule": rule,
        "events_waiting": events,
        "shared_with": sum(1 for other in table.rules.values() if other.source == placed.source) - 1,
        "since": time_text(placed.since_us) if placed.since_us else "",
        "actions": [
            {
                "action": queue.removeprefix(begin),
                "waiting": queues[queue]["waiting"] if queue in queues else 0,
                "dead": dead.get(queue, 0),
            }
            for queue in own
        ],
    }
