"""The progress of a pipeline (D6): rows a second, lag, the last batch, confirmed up to.

People see a table, programs get JSON. The numbers are those of Spark's StreamingQueryProgress. The source reports as its latest
offset, for each destination, the subscription's identity, its newest place, and how many events are not confirmed: their sum is
the lag. A batch begins with the newest commit, which is confirmed by then.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, NamedTuple, Self

from rich.console import Console
from rich.live import Live
from rich.table import Table


class Progress(NamedTuple):
    """One batch, or one look at a query that had nothing to do."""

    batch: int
    at: str
    rows: int
    rows_per_second: float
    seconds: float
    lag: int | None
    late: int
    confirmed: dict[str, int]

    @property
    def confirmed_text(self) -> str:
        return ", ".join(f"{name} {place}" for name, place in self.confirmed.items()) or "-"


def progress_of(said: Mapping[str, Any]) -> Progress:
    """Read the useful part of Spark's progress."""
    sources = said.get("sources") or []
    lags = [lag for source in sources for lag in _lags(source)]
    return Progress(
        batch=said["batchId"],
        at=said["timestamp"],
        rows=sum(source.get("numInputRows") or 0 for source in sources),
        rows_per_second=float(said.get("processedRowsPerSecond") or 0.0),
        seconds=(said.get("batchDuration") or 0) / 1000,
        lag=sum(lags) if lags else None,
        late=sum(state.get("numRowsDroppedByWatermark") or 0 for state in said.get("stateOperators") or []),
        confirmed={name: mark[1] for source in sources for name, mark in _marks(source.get("startOffset")).items()},
    )


def _lags(source: Mapping[str, Any]) -> list[int]:
    return [mark[2] for mark in _marks(source.get("latestOffset")).values() if len(mark) > 2 and isinstance(mark[2], int)]


def _marks(offset: Any) -> dict[str, list[Any]]:
    """An offset of the source; Spark hands it on as JSON, or as the text of it."""
    found = json.loads(offset) if isinstance(offset, str) else offset
    if not isinstance(found, dict):
        return {}
    return {name: mark for name, mark in found.items() if isinstance(mark, list) and len(mark) > 1}


class Reporter:
    """Says how it goes: a table that is kept up to date while a person looks, a line for each batch otherwise."""

    def __init__(self, pipeline: str, *, as_json: bool = False) -> None:
        self._pipeline = pipeline
        self._as_json = as_json
        self._rows = 0
        self._late = 0
        self._console = Console(stderr=True)
        self._live: Live | None = None

    @property
    def is_json(self) -> bool:
        return self._as_json

    @property
    def rows(self) -> int:
        return self._rows

    def __enter__(self) -> Self:
        if not self._as_json and self._console.is_terminal:
            self._live = Live(console=self._console, redirect_stdout=sys.stdout.isatty(), redirect_stderr=False)
            self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def tell(self, progress: Progress) -> None:
        self._rows += progress.rows
        self._late += progress.late
        if self._as_json:
            self._print_json({**progress._asdict(), "total_rows": self._rows, "total_late": self._late})
        elif self._live is not None:
            self._live.update(self._table(progress))
        elif progress.rows:
            self._console.print(self._line(progress), highlight=False, soft_wrap=True)

    def show_rows(self, rows: Sequence[Mapping[str, Any]], keys: Sequence[str]) -> None:
        """Rows that are the result, on stdout; sorted by their keys."""
        ordered = sorted(rows, key=lambda row: [str(row[key]) for key in keys])
        if self._as_json:
            for row in ordered:
                self._print_json(row)
            return
        table = Table(*(name.replace("_", " ") for name in ordered[0]))
        for row in ordered:
            table.add_row(*map(_text, row.values()))
        Console(width=None if sys.stdout.isatty() else 250).print(table)

    def finish(self, sentence: str, **facts: Any) -> None:
        if self._as_json:
            self._print_json({"finished": sentence, "total_rows": self._rows, "total_late": self._late, **facts})
        else:
            late = f"; {self._late:,} came too late to be counted" if self._late else ""
            self._console.print(f"{self._pipeline}: {sentence}; {self._rows:,} rows{late}", highlight=False, soft_wrap=True)

    def _table(self, progress: Progress) -> Table:
        table = Table(title=f"holdfast pipeline {self._pipeline}", show_header=False, title_justify="left")
        for name, value in self._facts(progress).items():
            table.add_row(name, value)
        return table

    def _facts(self, progress: Progress) -> dict[str, str]:
        return {
            "rows": f"{self._rows:,}",
            "rows/s": f"{progress.rows_per_second:,.0f}",
            "lag": "-" if progress.lag is None else f"{progress.lag:,}",
            "last batch": f"{progress.batch}: {progress.rows:,} rows in {progress.seconds:.2f} s, {progress.at}",
            "confirmed up to": progress.confirmed_text,
            **({"too late": f"{self._late:,}"} if self._late else {}),
        }

    def _line(self, progress: Progress) -> str:
        return "  ".join(f"{name} {value}" for name, value in self._facts(progress).items())

    def _print_json(self, value: Mapping[str, Any]) -> None:
        sys.stdout.write(json.dumps({"pipeline": self._pipeline, **value}, default=str) + "\n")
        sys.stdout.flush()


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.2f}"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return "-" if value is None else str(value)
