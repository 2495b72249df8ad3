"""Measure r: what rules cost that do not match: 10,000 events a second against 50 rules of which few match.

A selector is judged at the server, so a rule that does not match costs the server some processor time for each event, and the
program of the rules nothing. Rules with the same topics and selector share one subscription: fifty of them cost what one does.
Measured is processor time, of the server and of the program, in turns: without rules, with one, with fifty of their own
selectors, and with fifty that share one.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path

import holdfast
from holdfast.event.event import PropertyValue
from tests.bench.child import Child
from tests.bench.peers.holdfast import HoldfastClient, Server
from tests.bench.results import in_turns
from tests.bench.workshop import Workshop

RATE = 10_000
SECONDS = 4.0
RULES = 50
CHUNK = 100
# One event in so many matches one rule.
MATCHES_ONE_IN = 1_000
NONE, ONE, OWN, SHARED = "no rules", "1 rule", f"{RULES} rules of their own", f"{RULES} rules that share"
TOPICS = {NONE: "none", ONE: "one", OWN: "own", SHARED: "shared"}
TICKS = os.sysconf("SC_CLK_TCK")


def measure(workshop: Workshop) -> None:
    server, folder = Server(), workshop.folder("rules")
    rules: Child | None = None
    try:
        server.start(folder)
        (folder / "rules").mkdir()
        (folder / "rules" / "rules.toml").write_text(_rules())
        command = [sys.executable, "-m", "holdfast", "actions", "run", "rules.toml", "--url", server.url]
        rules = Child(command, folder / "rules")
        rules.wait_until(lambda: "at work" in (folder / "rules" / "output.txt").read_text())
        client = server.connect()
        _measured(workshop, client, server.pid, rules.pid, folder / "rules" / "alerts.log")
        client.close()
    finally:
        if rules is not None:
            rules.stop()
        server.stop()


def _rules() -> str:
    """Fifty-one selectors: a host that never comes, and one event in a thousand that matches one rule of each kind."""
    made = ['name = "bench"']
    for kind, count in ((ONE, 1), (OWN, RULES), (SHARED, RULES)):
        for number in range(count):
            selector = f"number = {0 if kind != OWN else number} AND host LIKE 'web-%'"
            name = f"{TOPICS[kind]}-{number}"
            made.append(f'[rules.{name}]\ntopics = ["{TOPICS[kind]}"]\nselector = "{selector}"\nsilence = "1h"')
            made.append('actions = [{ do = "log", file = "alerts.log", line = "{rule}" }]')
    return "\n".join(made)


def _measured(workshop: Workshop, client: HoldfastClient, server: int, rules: int, log: Path) -> None:
    seconds = max(0.5, SECONDS * workshop.scale.share)
    used: dict[str, list[float]] = {who: [] for who in TOPICS}
    rates: list[float] = []

    def load(who: str) -> float:
        workshop.tell(f"{RATE:,} events/s against {who}")
        before = _cpu_seconds(server), _cpu_seconds(rules)
        sent, took_s = client.loop.run(_send(client.client, TOPICS[who], seconds))
        rates.append(sent / took_s)
        used[who].append((_cpu_seconds(rules) - before[1]) / sent * 1e6)
        return (_cpu_seconds(server) - before[0]) / sent * 1e6

    load(NONE)  # warm
    used[NONE].clear()
    samples = in_turns(workshop.scale.repetitions, {who: lambda who=who: load(who) for who in TOPICS})  # type: ignore[misc]
    results = workshop.results
    results.note("r", f"processor time of the server for an event, at {RATE:,} events/s", "µs", samples)
    results.note("r", "processor time of the rules for an event", "µs", used)
    results.note("r", "rate that was reached", "events/s", {"Holdfast": rates})
    own = [(many - none) / RULES for many, none in zip(samples[OWN], samples[NONE], strict=True)]
    shared = [many - one for many, one in zip(samples[SHARED], samples[ONE], strict=True)]
    results.find("r", "a rule that does not match, for an event", own, unit="µs")
    results.find("r", f"{RULES - 1} more rules that share a subscription, for an event", shared, unit="µs")
    assert log.read_text().splitlines(), "some rules match"


async def _send(client: holdfast.Client, topic: str, seconds: float) -> tuple[int, float]:
    """Send at the rate, and wait until everything is accepted."""
    begun, sent = time.perf_counter(), 0
    properties: list[dict[str, PropertyValue]] = [{"number": number, "host": "web-7"} for number in range(MATCHES_ONE_IN)]
    async with client.topic(topic).pipeline() as pipeline:
        while sent < RATE * seconds:
            for _ in range(CHUNK):
                await pipeline.send(b"x" * 100, properties=properties[sent % MATCHES_ONE_IN])
                sent += 1
            early_s = sent / RATE - (time.perf_counter() - begun)
            if early_s > 0:
                await asyncio.sleep(early_s)
    return sent, time.perf_counter() - begun


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS
