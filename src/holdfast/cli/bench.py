"""`holdfast bench`: how fast it is on this disk, as ratios to a bare write and sync."""

from __future__ import annotations

import typer

from holdfast.cli import help_text
from holdfast.cli.options import Json


def add_to(app: typer.Typer) -> None:
    app.command(
        **help_text.described(
            "Measure sending and receiving here, embedded and over TCP, beside a bare write and sync; takes under 20 s.",
            ["holdfast bench", "holdfast bench --json"],
            help_text.LOCAL,
        )
    )(bench)


def bench(json: Json = False) -> None:
    from holdfast.cli.measuring import COLUMNS, measure
    from holdfast.cli.output import show_rows

    show_rows([row.shown(as_json=json) for row in measure()], COLUMNS, as_json=json)
