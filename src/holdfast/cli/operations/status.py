"""`holdfast status` and `holdfast version`: the state of a server, and the release."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli import help_text
from holdfast.cli.options import URL_DEFAULT, Json, Timeout, Url
from holdfast.cli.question import ask
from holdfast.cli.repetition import Interval, Looks, looks
from holdfast.errors import BadSetting

if TYPE_CHECKING:
    from holdfast.client.client import Client
    from holdfast.client.description import Place, Status

Watch = Annotated[bool, typer.Option("--watch", help="Show it again and again, until Ctrl-C.")]
# Of a terminal: go to its first line, and clear what is there.
CLEAR = "\x1b[H\x1b[2J"
# Counts of a relay's route, and how they are told.
WAITING = (("waiting_upstream", "wait upstream"), ("waiting_here", "wait here"))


def add_to(app: typer.Typer) -> None:
    app.command(
        **help_text.described(
            "Show the state of a server: journal used, events waiting and since when, what is blocked, what pins space.",
            ["holdfast status", "holdfast status --json", "holdfast status --watch --interval 0.2 --count 2"],
        )
    )(status)
    app.command(
        **help_text.described(
            "Print the release, and which Python runs it.", ["holdfast version", "holdfast version --json"], help_text.PLAIN
        )
    )(version)  # fmt: skip


def status(
    watch: Watch = False,
    interval: Interval = 2.0,
    count: Looks = None,
    url: Url = URL_DEFAULT,
    timeout: Timeout = None,
    json: Json = False,
) -> None:
    if count is not None and not watch:
        raise BadSetting("--count says how often to look again; give --watch as well")
    if not watch:
        _show(ask(url, timeout, _look), json=json)
        return

    async def show_again(client: Client) -> None:
        is_screen = sys.stdout.isatty() and not json
        async for _ in looks(interval, count):
            told = await _look(client)
            if is_screen:
                sys.stdout.write(CLEAR)
            _show(told, json=json)
            if not (is_screen or json):
                print_line("")

    from holdfast.cli.output import print_line

    ask(url, timeout, show_again)


async def _look(client: Client) -> Status:
    """The state of a server, and of the relays that it knows."""
    from holdfast.relay.report import relays_at

    told, relays = await client.status(), await relays_at(client)
    return {**told, "relays": relays}


def _show(told: Status, *, json: bool) -> None:
    from holdfast.cli.output import show

    show(told if json else for_people(told), as_json=json)


def for_people(told: Status) -> dict[str, Any]:
    """The most wanted facts first, in words."""
    from holdfast.cli.output import counted, in_units

    used, size = told.get("journal_used_bytes", 0), told.get("journal_size_bytes", 0)  # an older server has neither
    waiting, oldest, pin = told.get("waiting"), told.get("oldest_waiting"), told.get("pins_space")
    first: dict[str, Any] = {
        "journal": f"{in_units(used)} of {in_units(size)} used" + (f" ({100 * used // size} %)" if size else ""),
        "waiting": "not shown to this user" if waiting is None else counted(waiting),
        "oldest_waiting": "none" if oldest is None else f"{_where(oldest)}, {_since(oldest['accepted_at_ms'])}",
        "blocked": ", ".join(told["blocked"]) or "none",
        "pins_space": "nothing" if pin is None else f"{_where(pin)}, with {pin['entries']:,} entries from {pin['entry']:,} on",
        "dead": ", ".join(f"{row['events']:,} {row['code']} of {row['destination']!r}" for row in told.get("dead", ())) or "none",
    }
    often = [f"{row['events']:,} of {_where(row)}" for row in told.get("redelivered_often", ())]
    first["redelivered_often"] = ", ".join(often) or "none"
    if told.get("perhaps_topics"):
        first["perhaps_topics"] = ", ".join(
            f"queue {row['destination']!r} (beside {row['like']!r})" for row in told["perhaps_topics"]
        )
    first["programs"] = ", ".join(_program(row) for row in told.get("programs", ())) or "none"
    if told.get("relays"):
        first["relays"] = "; ".join(_relay(row) for row in told["relays"])
    shown = {*first, "journal_used_bytes", "journal_size_bytes"}
    return {**first, **{name: value for name, value in told.items() if name not in shown}}


def _where(place: Place) -> str:
    if place["destination"] is None:
        return "a transaction, a stage or a large event that is not complete"
    of = place["destination"]
    return f"subscription {place['subscription']!r} of {of!r}" if place["subscription"] else f"queue {of!r}"


def _program(row: dict[str, Any]) -> str:
    """A program beside the server: whether it runs, and why it does not."""
    again = f", started again {row['restarts']:,} times, the last time after {row['reason']}" if row["restarts"] else ""
    return f"{row['program']} is {row['state']}{again}"


def _relay(row: dict[str, Any]) -> str:
    """A relay at this server: whether it runs, what it is not linked to, and how each of its routes fares."""
    if not row["is_running"]:
        waiting = sum(each["waiting_upstream"] for each in row["routes"])
        return f"{row['relay']} does not answer" + (f", and {waiting:,} events wait here for it" if waiting else "")
    parts = [f"{each['upstream']} is not linked: {each['problem']}" for each in row["upstreams"] if not each["is_linked"]]
    for each in row["routes"]:
        counts = [f"{each[name]:,} {what}" for name, what in WAITING if each.get(name)]
        held = f"held back: {each['held_back']}" if each["held_back"] else "passes"
        parts.append(f"route {each['route']} ({each['mode']}) {', '.join((held, *counts))}")
    parts += [f"route {each['route']} is gone, and {each['waiting_upstream']:,} wait upstream" for each in row["gone_routes"]]
    return f"{row['relay']} runs, its journal is {row['local']}: {', '.join(parts)}"


def _since(accepted_at_ms: int) -> str:
    from datetime import UTC, datetime

    if not accepted_at_ms:
        return "since nobody knows when"
    return f"since {datetime.fromtimestamp(accepted_at_ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"


def version(json: Json = False) -> None:
    import holdfast
    from holdfast.cli import interpreter
    from holdfast.cli.output import show

    python = interpreter.described()
    release = {
        "holdfast": holdfast.__version__,
        "python": python["version"],
        "implementation": python["implementation"],
        "build": python["build"],
    }
    show(release, as_json=json, sentence=f"holdfast {release['holdfast']} ({interpreter.in_words()})")


def print_version(is_asked: bool) -> None:
    """`holdfast --version`, as other tools expect it."""
    if is_asked:
        version()
        raise typer.Exit
