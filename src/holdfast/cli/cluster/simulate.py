"""`holdfast simulate`: whole clusters on a simulated network and clock, from one seed."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli import help_text
from holdfast.cli.options import Json
from holdfast.errors import BadSetting

if TYPE_CHECKING:
    from holdfast.simulation.clusters.simulation import Outcome, Simulation

Seed = Annotated[int, typer.Option("--seed", metavar="N", min=0, help="Which run: the same number is the same run.")]
Minutes = Annotated[
    float | None,
    typer.Option(
        "--minutes",
        metavar="M",
        min=0.01,
        help="How long the cluster works under faults, in simulated time; without it, 3 seconds.",
    ),
]
Runs = Annotated[int, typer.Option("--runs", metavar="N", min=1, help="So many runs, from this seed on.")]
Last = Annotated[int, typer.Option("--last", metavar="N", min=0, help="Of a broken run, show so many of the last things.")]


def add_to(app: typer.Typer) -> None:
    described = help_text.described(
        "Run whole clusters in this process, on a simulated network and clock: nodes crash, pause and lose each other, and every "
        "promise is checked. It stops at the first seed that breaks one. Nothing is stored and no port is used.",
        [
            "holdfast simulate --seed 7",
            "holdfast simulate --seed 100 --runs 5",
            "holdfast simulate --seed 7 --minutes 0.2 --json",
        ],
        help_text.PLAIN,
        {0: "all promises are kept", 1: "a promise was broken: the seed and what was broken are printed"},
    )
    app.command("simulate", **described)(simulate)


def simulate(seed: Seed = 1, minutes: Minutes = None, runs: Runs = 1, last: Last = 40, json: Json = False) -> None:
    try:
        from holdfast.simulation.clusters.simulation import WORK_S, Simulation
    except ImportError as problem:
        raise BadSetting(
            f"a simulated cluster needs packages that are not installed ({problem.name}); install them: pip install "
            "'holdfast[cluster]'"
        ) from problem
    for each in range(seed, seed + runs):
        outcome = Simulation(each, WORK_S if minutes is None else 60 * minutes, _told).run()
        _show(outcome, last, as_json=json)
        if not outcome.is_kept:
            raise typer.Exit(1)


def _told(simulation: Simulation) -> None:
    if sys.stderr.isatty():
        done = simulation.observer.account.verdict()
        print(f"{simulation.world.now_us / 1e6:.0f} s: {done.accepted} accepted, {done.delivered} delivered", file=sys.stderr)


def _show(outcome: Outcome, last: int, *, as_json: bool) -> None:
    from holdfast.cli.output import json_line, print_line

    if as_json:
        print_line(json_line({**outcome.as_dict(), "last_lines": outcome.last_lines[len(outcome.last_lines) - last :]}))
        return
    print_line(
        f"seed {outcome.seed}: {outcome.seconds:.1f} s, {len(outcome.faults)} faults, {outcome.accepted} accepted, "
        f"{outcome.delivered} delivered, {outcome.duplicates} of them again, {outcome.moved} transactions, "
        f"{'all promises are kept' if outcome.is_kept else 'BROKEN'}, trace {outcome.digest[:16]}"
    )
    if outcome.is_kept:
        return
    for line in (*outcome.faults, *(f"broken: {each}" for each in outcome.broken), *outcome.last_lines[-last:][:last]):
        print_line(f"  {line}")
    print_line(f"  to see it again: holdfast simulate --seed {outcome.seed}")
