"""`holdfast dead`: the events that could not be delivered. Look at them, send them again, or throw them away."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli import help_text
from holdfast.cli.destination import ask
from holdfast.cli.options import URL_DEFAULT, Json, Timeout, Url

if TYPE_CHECKING:
    from holdfast.client.browser import BrowsedEvent
    from holdfast.client.client import Client

COLUMNS = ("position", "destination", "subscription", "code", "reason", "deliveries", "when", "type")
# Of a reason, in a table; `dead show` has all of it.
REASON_LENGTH_SHOWN = 60

Positions = Annotated[list[int] | None, typer.Argument(metavar="[POSITION]...", help="Which ones, as `dead list` shows them.")]
Selector = Annotated[
    str | None, typer.Option("--selector", metavar="CONDITION", help='Those that match, such as "amount > 100".')
]
All = Annotated[bool, typer.Option("--all", help="All dead events.")]
To = Annotated[str | None, typer.Option("--to", metavar="DESTINATION", help="Send them there, not to where they were sent.")]
Count = Annotated[int, typer.Option("--count", metavar="N", min=1, help="Show at most so many.")]

group = typer.Typer(help="Look at dead events, send them again, or throw them away.", no_args_is_help=True, rich_markup_mode=None)


def add_to(app: typer.Typer) -> None:
    app.add_typer(group, name="dead")


@group.command(
    "list",
    **help_text.described(
        "List the dead events, with where, why and when each was given up.",
        [
            "holdfast send returns --data '{\"sku\": 7}' && holdfast destination delete returns && holdfast dead list",
            'holdfast dead list --selector "amount > 100" --json',
        ],
    ),
)
def list_(
    selector: Selector = None, count: Count = 1_000, url: Url = URL_DEFAULT, timeout: Timeout = 30.0, json: Json = False
) -> None:
    from holdfast.cli.output import show_rows

    events = ask(url, timeout, lambda client: client.dead.list(selector=selector, limit=count))
    show_rows([_whole(event) if json else _row(event) for event in events], COLUMNS, as_json=json)


@group.command(
    "show",
    **help_text.described(
        "Show one dead event, with all its deaths and its data; the oldest, if none is named.",
        ["holdfast dead show", "holdfast dead show --json"],
    ),
)
def show_(
    position: Annotated[int | None, typer.Argument(metavar="[POSITION]", help="Which one, as `dead list` shows it.")] = None,
    url: Url = URL_DEFAULT,
    timeout: Timeout = 30.0,
    json: Json = False,
) -> None:
    from holdfast.cli.output import show

    shown = _whole(ask(url, timeout, lambda client: _one(client, position)))
    show(shown if json else {**shown, "position": str(shown["position"])}, as_json=json)


async def _one(client: Client, position: int | None) -> BrowsedEvent:
    from holdfast.errors import NoSuchPosition

    if position is not None:
        return await client.dead.show(position)
    for event in await client.dead.list(limit=1):
        return event
    raise NoSuchPosition("there are no dead events; all that was accepted was delivered, or waits")


@group.command(
    "replay",
    **help_text.described(
        "Send dead events again, as they were, to where they were sent or elsewhere; each once, and no longer dead.",
        ['holdfast dead replay --selector "sku = 7" --to returned', "holdfast dead replay --all"],
    ),
)
def replay(
    positions: Positions = None,
    all_: All = False,
    selector: Selector = None,
    to: To = None,
    url: Url = URL_DEFAULT,
    timeout: Timeout = 30.0,
    json: Json = False,
) -> None:
    from holdfast.cli.output import counted, show

    def work(client: Client) -> Any:
        return client.dead.replay(positions or None, selector=selector, everything=all_, to=to, progress=_progress("sent again"))

    replayed = ask(url, timeout, work)
    show({"replayed": replayed}, as_json=json, sentence=f"sent {counted(replayed)} again")


@group.command(
    "purge",
    **help_text.described(
        "Throw dead events away, for good.",
        ['holdfast dead purge --selector "amount < 10"', "holdfast dead purge --all"],
    ),
)
def purge(
    positions: Positions = None,
    all_: All = False,
    selector: Selector = None,
    url: Url = URL_DEFAULT,
    timeout: Timeout = 30.0,
    json: Json = False,
) -> None:
    from holdfast.cli.output import counted, show

    def work(client: Client) -> Any:
        return client.dead.purge(positions or None, selector=selector, everything=all_, progress=_progress("thrown away"))

    purged = ask(url, timeout, work)
    show({"purged": purged}, as_json=json, sentence=f"threw {counted(purged)} away")


def _progress(what: str) -> Any:
    """A line that is written over, where a person looks; nothing otherwise."""
    import sys

    if not sys.stderr.isatty():
        return None
    return lambda done: print(f"\r{done:,} {what}", end="", file=sys.stderr, flush=True)


def _row(event: BrowsedEvent) -> dict[str, Any]:
    death = event.dead[-1]
    reason = death.reason.partition("\n")[0]
    return {
        "position": str(event.position),
        "destination": event.destination,
        "subscription": death.subscription,
        "code": death.code,
        "reason": reason if len(reason) <= REASON_LENGTH_SHOWN else reason[: REASON_LENGTH_SHOWN - 1] + "…",
        "deliveries": death.deliveries,
        "when": death.when.isoformat(timespec="seconds") if death.when is not None else None,
        "type": event.type,
    }


def _whole(event: BrowsedEvent) -> dict[str, Any]:
    from holdfast.cli.receive import as_cloud_event

    return as_cloud_event(event)
