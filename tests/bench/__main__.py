"""The yardsticks: Holdfast beside others, all of them durable before they acknowledge, and beside the bare disk.

    python -m tests.bench                     everything; about a quarter of an hour on two cores
    python -m tests.bench --quick             a smoke run, under a minute; its figures mean little
    python -m tests.bench --only a,b          only these measures
    python -m tests.bench --json out.json     where the results go; the default is bench-results/bench.json

Exit codes: 0 measured, whether targets were met or missed; 1 the bench itself failed; 2 wrong options.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console

from tests.bench import (
    alert_rules,
    backlog,
    cluster_channel,
    continuity,
    fairness,
    journal,
    large,
    latency,
    many,
    memory,
    opening,
    relay,
    report,
    spark_sinks,
    spark_source,
    stalled,
    storage,
    throughput,
    transactions,
)
from tests.bench.peer import Peer
from tests.bench.peers.holdfast import Embedded, Server
from tests.bench.peers.jetstream import JetStream
from tests.bench.peers.rabbitmq import RabbitMq
from tests.bench.peers.redis_streams import RedisStreams
from tests.bench.peers.sqlite import Sqlite
from tests.bench.results import Results
from tests.bench.scale import FULL, QUICK
from tests.bench.workshop import Workshop

RESULTS = Path("bench-results")
MEASURES = "".join(report.TITLES)


def _peers(wanted: set[str]) -> list[Peer]:
    """Who is needed: `d` compares brokers only."""
    brokers: list[Peer] = [Server(), JetStream(), RedisStreams(), RabbitMq()]
    in_process: list[Peer] = [Embedded(), Sqlite()]
    return brokers + in_process * bool({"a", "b", "c"} & wanted)


def _measure(workshop: Workshop, wanted: set[str]) -> None:
    if {"a", "b", "c", "d"} & wanted:
        workshop.start(_peers(wanted))
        if reason := workshop.results.left_out.get(Server.name):
            raise RuntimeError(f"there is nothing to compare: {reason}")
        throughput.measure(workshop, wanted)
        if "d" in wanted:
            latency.measure(workshop)
        workshop.stop_all()
    for name, alone in (
        ("e", journal),
        ("f", backlog),
        ("g", opening),
        ("h", memory),
        ("i", stalled),
        ("j", transactions),
        ("k", large),
        ("l", fairness),
        ("m", spark_source),
        ("n", spark_sinks),
        ("o", many),
        ("p", continuity),
        ("q", relay),
        ("r", alert_rules),
        ("s", storage),
        ("t", cluster_channel),
    ):
        if name in wanted:
            alone.measure(workshop)


def _end(number: int, frame: object) -> NoReturn:
    """A polite end also stops what was started."""
    raise SystemExit(128 + number)


def main(
    quick: Annotated[bool, typer.Option("--quick", help="A smoke run: under a minute, figures mean little.")] = False,
    only: Annotated[str, typer.Option(help=f"Measures, of {','.join(MEASURES)}.")] = ",".join(MEASURES),
    json: Annotated[Path, typer.Option(help="Where the results go; the plot goes beside it.")] = RESULTS / "bench.json",
) -> None:
    wanted = {measure.strip() for measure in only.split(",")}
    if unknown := wanted - set(MEASURES):
        raise typer.BadParameter(f"no such measure: {', '.join(sorted(unknown))}; there are {', '.join(MEASURES)}")
    signal.signal(signal.SIGTERM, _end)
    results, console = Results(), Console(stderr=True)
    try:
        with (
            console.status("starting") as status,
            Workshop(QUICK if quick else FULL, results, RESULTS, status.update) as workshop,
        ):
            _measure(workshop, wanted)
    finally:  # what was measured before something failed is worth having
        report.show(results, Console(width=None if sys.stdout.isatty() else 160))
        report.write(results, json, quick)
        report.draw(results, json.with_suffix(".png"))
        console.print(f"results: {json}, {json.with_suffix('.png')}")


if __name__ == "__main__":
    application = typer.Typer(pretty_exceptions_show_locals=False, add_completion=False)
    application.command(help=__doc__)(main)
    application()
