"""The report of an audit in the terminal: the verdict first, then what is wrong, then where everything is."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

from holdfast.spark.pipelines.auditing.report import TOLD, Report

# How many findings of each kind are shown; the page and --json have more.
ROWS_MAX = 20


def print_report(report: Report) -> None:
    console = Console(width=None if sys.stdout.isatty() else 200, highlight=False)
    _print_table(console, "where they are", report.destinations, ("destination", *_used(report)))
    account = ("destination", "subscription", "accepted", "confirmed", "dead", "expired", "waiting")
    _print_table(console, "what the server counted", report.account, account)
    _print_table(console, "lost", report.lost_ranges, ("destination", "first", "last", "count", "first_position"))
    _print_table(console, "duplicated", report.duplicates, ("destination", "id", "copies", "reason", "first_position"))
    _print_table(console, "never seen", report.holes, ("producer", "first", "last", "count"))
    for remark in report.remarks():
        console.print(f"note: {remark}", soft_wrap=True)
    console.print(report.verdict, style="bold green" if report.is_whole else "bold red")


def _used(report: Report) -> list[str]:
    """Columns in which there is something; and those that the verdict is about."""
    return [name for name in TOLD if report.total(name) or name in ("lost", "duplicated")]


def _print_table(console: Console, title: str, rows: Sequence[msgspec.Struct], columns: Sequence[str]) -> None:
    if not rows:
        return
    table = Table(title=title, title_justify="left")
    for column in columns:
        is_number = isinstance(getattr(rows[0], column), int)
        table.add_column(column.replace("_", " "), justify="right" if is_number else "left", overflow="fold")
    for row in rows[:ROWS_MAX]:
        table.add_row(*(_text(getattr(row, column)) for column in columns))
    console.print(table)
    if len(rows) > ROWS_MAX:
        console.print(f"… and {len(rows) - ROWS_MAX:,} more rows: see --html or --json")


def _text(value: Any) -> str:
    return "-" if value is None else f"{value:,}" if isinstance(value, int) else str(value)
