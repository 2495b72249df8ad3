"""`holdfast top`: a live screen of a server: destinations, rates, how far recipients are behind, what is blocked, links."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Protocol

import typer

from holdfast.cli import help_text
from holdfast.cli.options import URL_DEFAULT, Json, Timeout, Url
from holdfast.cli.repetition import Interval, Looks, looks

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from holdfast.client.client import Client
    from holdfast.client.description import DestinationDescription, Status

Rows = Annotated[int, typer.Option("--rows", metavar="N", min=1, max=500, help="Show so many destinations, the busiest first.")]
# Destinations whose counts are asked for at each look, those with most waiting first: each is a question to the server.
ASKED_MAX = 200
# Characters in a line where the output is no terminal: a pager or a file takes any width.
WIDTH_ELSEWHERE = 240
COLUMNS = ("destination", "kind", "waiting", "in flight", "receivers", "accepted/s", "confirmed/s", "dead/s", "behind", "")


class Counts(NamedTuple):
    """The counts of a destination that only grow."""

    accepted: int
    confirmed: int
    dead: int


class Row(NamedTuple):
    destination: str
    kind: str
    waiting: int
    in_flight: int
    receivers: int
    accepted_per_second: float
    confirmed_per_second: float
    dead_per_second: float
    behind_seconds: float | None  # how long the recipients need for what waits, at their present pace; None: they stand still
    is_blocked: bool


class Rates:
    """Makes rows of what a server says at each look, with the rates since the look before. Pure."""

    def __init__(self) -> None:
        self._at_s: float | None = None
        self._counts: dict[str, Counts] = {}

    def rows(self, at_s: float, described: Iterable[DestinationDescription]) -> list[Row]:
        """The rows, busiest first."""
        before, passed_s = self._counts, at_s - self._at_s if self._at_s is not None else 0.0
        known = {each["name"]: each for each in described}
        self._at_s, self._counts = at_s, {name: _counts(each) for name, each in known.items()}
        rows = [self._row(each, before.get(name), passed_s) for name, each in known.items()]
        return sorted(rows, key=lambda row: (-row.accepted_per_second - row.confirmed_per_second, -row.waiting, row.destination))

    def _row(self, each: DestinationDescription, before: Counts | None, passed_s: float) -> Row:
        now, waiting = self._counts[each["name"]], each["waiting"]
        rates = [0.0] * len(now)
        if before is not None and passed_s > 0:
            rates = [max(0, new - old) / passed_s for new, old in zip(now, before, strict=True)]
        behind = 0.0 if not waiting else waiting / rates[1] if rates[1] else None
        standing = (waiting, each["in_flight"], each["receivers"])
        return Row(each["name"], each["kind"], *standing, rates[0], rates[1], rates[2], behind, each["is_blocked"])


def _counts(each: DestinationDescription) -> Counts:
    """The counts of a queue, or those of all subscriptions of a topic together."""
    parts: Iterable[Mapping[str, Any]] = each["subscriptions"] if each["kind"] == "topic" else [each]
    confirmed, dead = (sum(part.get(name, 0) for part in parts) for name in ("confirmed", "dead"))
    return Counts(each.get("accepted", 0), confirmed, dead)


def add_to(app: typer.Typer) -> None:
    app.command(
        **help_text.described(
            "Watch a server on a live screen: destinations, rates, how far recipients are behind, what is blocked, links.",
            ["holdfast top --count 2 --interval 0.2", "holdfast top --count 2 --interval 0.2 --rows 5 --json"],
        )
    )(top)


def top(
    interval: Interval = 1.0,
    count: Looks = None,
    rows: Rows = 30,
    url: Url = URL_DEFAULT,
    timeout: Timeout = None,
    json: Json = False,
) -> None:
    import holdfast

    async def work() -> None:
        async with holdfast.connect(url, name="holdfast", timeout=timeout) as client:
            await client.status()  # a server that cannot be reached at all is said at once
            with _screen(as_json=json) as screen:
                await _watch(client, screen, interval, count, rows)

    holdfast.run(work())


class Screen(Protocol):
    def show(self, status: Status, rows: list[Row]) -> None: ...

    def show_problem(self, problem: str) -> None: ...


async def _watch(client: Client, screen: Screen, interval: float, count: int | None, rows_max: int) -> None:
    from holdfast.errors import Unavailable

    rates = Rates()
    async for at_s in looks(interval, count):
        try:
            status, described = await client.status(), await _described(client)
        except Unavailable as problem:  # the client goes on trying, and so does the screen
            screen.show_problem(problem.sentence)
            continue
        screen.show(status, rates.rows(at_s, described)[:rows_max])


async def _described(client: Client) -> list[DestinationDescription]:
    """The destinations with most waiting, and their counts. One that was deleted meanwhile is left out."""
    import asyncio

    from holdfast.errors import NoSuchDestination

    found = sorted(await client.destinations(), key=lambda each: -each["waiting"])[:ASKED_MAX]
    answers = await asyncio.gather(*(client.describe(each["name"]) for each in found), return_exceptions=True)
    for answer in answers:
        if isinstance(answer, BaseException) and not isinstance(answer, NoSuchDestination):
            raise answer
    return [answer for answer in answers if not isinstance(answer, BaseException)]


@contextmanager
def _screen(*, as_json: bool) -> Iterator[Screen]:
    from rich.console import Console
    from rich.live import Live

    console = Console(highlight=False)
    if as_json:
        yield _Lines()
    elif not console.is_terminal:
        yield _Pages(Console(highlight=False, width=WIDTH_ELSEWHERE).print)
    else:
        with Live(console=console, screen=True, auto_refresh=False) as live:
            yield _Pages(lambda shown: live.update(shown, refresh=True), console)


class _Lines:
    """For programs: one line of JSON a look."""

    def show(self, status: Status, rows: list[Row]) -> None:
        from holdfast.cli.output import json_line, print_line

        print_line(json_line({"status": status, "destinations": [row._asdict() for row in rows]}))

    def show_problem(self, problem: str) -> None:
        from holdfast.cli.output import json_line, print_line

        print_line(json_line({"problem": problem}))


class _Pages:
    """For people: a table a look, in place of the one before on a terminal, below it elsewhere."""

    def __init__(self, show: Any, console: Console | None = None) -> None:
        self._show = show
        self._console = console

    def show(self, status: Status, rows: list[Row]) -> None:
        height = max(1, self._console.size.height - 6) if self._console is not None else len(rows)
        self._show(page(status, rows[:height]))

    def show_problem(self, problem: str) -> None:
        from rich.text import Text

        self._show(Text(f"no answer: {problem}", style="bold red"))


def page(status: Status, rows: list[Row]) -> RenderableType:
    """The screen of one look."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in COLUMNS:
        table.add_column(column, justify="left" if column in ("destination", "kind", "") else "right", no_wrap=True)
    for row in rows:
        table.add_row(*(Text(cell) for cell in _cells(row)), style="bold red" if row.is_blocked else None)
    return Group(*(Text(line) for line in _head(status)), "", table)


def _head(status: Status) -> list[str]:
    from holdfast.cli.operations.status import for_people
    from holdfast.cli.output import in_units

    told = for_people(status)
    space = f"; short of space: {status['reason']}" if status["is_short"] else ""
    return [
        f"{status['node']}: {status.get('links', 0):,} links, {status['sessions']:,} sessions, "
        f"{status['destinations']:,} destinations, {status['events_delivered']:,} events delivered",
        f"journal {told['journal']}, {in_units(status['events_reserve_bytes'])} reserve{space}",
        f"waiting {told['waiting']}; oldest: {told['oldest_waiting']}; blocked: {told['blocked']}",
    ]


def _cells(row: Row) -> list[str]:
    behind = "stands still" if row.behind_seconds is None else f"{row.behind_seconds:,.1f} s" if row.behind_seconds else "-"
    rates = [f"{rate:,.0f}" for rate in (row.accepted_per_second, row.confirmed_per_second, row.dead_per_second)]
    counts = [f"{count:,}" for count in (row.waiting, row.in_flight, row.receivers)]
    return [row.destination, row.kind, *counts, *rates, behind, "blocked" if row.is_blocked else ""]
