"""`holdfast lake`: upkeep of lake tables. Needs no Spark, and does not disturb a query that writes meanwhile."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

import typer

from holdfast.cli import help_text
from holdfast.cli.options import Json

Table = Annotated[str, typer.Argument(metavar="DIR", help="The folder of the lake table.")]
FileSize = Annotated[str, typer.Option("--file-size", metavar="SIZE", help="The size of a file, such as 256M.")]
Days = Annotated[int, typer.Option("--days", metavar="N", help="Keep so many days, today included.")]
Hours = Annotated[
    float, typer.Option("--older-than", metavar="HOURS", help="Delete only files that were not needed for so long.")
]

group = typer.Typer(help="Look after lake tables: show, compact, retain, vacuum.", no_args_is_help=True, rich_markup_mode=None)


def add_to(app: typer.Typer) -> None:
    app.add_typer(group, name="lake")


@group.command(
    "show",
    **help_text.described(
        "Show what a lake table holds: rows, files, bytes, days.", ["holdfast lake show ./lake/events"], help_text.LOCAL
    ),
)
def show_(table: Table, json: Json = False) -> None:
    from holdfast.cli.output import show

    _need_deltalake()
    from holdfast.spark.lake.upkeep import describe

    show(describe(table), as_json=json)


@group.command(
    "compact",
    **help_text.described(
        "Make few files of many, by day and destination. The rows stay as they are.",
        ["holdfast lake compact ./lake/events", "holdfast lake compact ./lake/events --file-size 64M --json"],
        help_text.LOCAL,
    ),
)
def compact_(table: Table, file_size: FileSize = "256M", json: Json = False) -> None:
    from holdfast.cli.output import show
    from holdfast.node.settings import parse_size

    file_bytes = parse_size(file_size, "--file-size")
    _need_deltalake()
    from holdfast.spark.lake.upkeep import compact

    done = compact(table, file_bytes=file_bytes)
    show(
        {"files_before": done.files_before, "files_after": done.files_after},
        as_json=json,
        sentence=f"{done.files_before:,} files before, {done.files_after:,} now; the old ones stay until `holdfast lake vacuum`",
    )


@group.command(
    "retain",
    **help_text.described(
        "Remove whole days of rows from a table, by its partition `date`.",
        ["holdfast lake retain ./lake/events --days 30"],
        help_text.LOCAL,
    ),
)
def retain_(table: Table, days: Days, json: Json = False) -> None:
    from holdfast.cli.output import show

    _need_deltalake()
    from holdfast.spark.lake.upkeep import retain

    done = retain(table, days)
    show(
        {"first_day": done.first_day, "files": done.files},
        as_json=json,
        sentence=f"{done.files:,} files of days before {done.first_day} taken out; they are deleted by `holdfast lake vacuum`",
    )


@group.command(
    "vacuum",
    **help_text.described(
        "Delete files that no version of a table needs any more, or that a killed task left behind.",
        ["holdfast lake vacuum ./lake/events", "holdfast lake vacuum ./lake/events --older-than 24"],
        help_text.LOCAL,
    ),
)
def vacuum_(table: Table, older_than: Hours = 168.0, json: Json = False) -> None:
    from holdfast.cli.output import show

    _need_deltalake()
    from holdfast.spark.lake.upkeep import vacuum

    done = vacuum(table, timedelta(hours=older_than))
    show({"files": done.files}, as_json=json, sentence=f"{done.files:,} files deleted")


def _need_deltalake() -> None:
    from holdfast.cli.operations.pipeline import need

    need("lake tables", ("pyarrow", "deltalake"))
