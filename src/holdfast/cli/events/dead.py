"""`holdfast dead`: look at events that could not be delivered, send them again, or throw them away."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli import help_text
from holdfast.cli.options import URL_DEFAULT, Json, Selector, Timeout, Url
from holdfast.cli.question import ask

if TYPE_CHECKING:
    from holdfast.client.client import Client
    from holdfast.client.reading.browser import BrowsedEvent

CHANNEL = "channel"
COLUMNS = ("position", "destination", "subscription", "code", "reason", "deliveries", "when", "type", "data")
# Characters of a reason, and of data, in a table; `dead show` has all of it.
REASON_LENGTH_SHOWN = 60
DATA_LENGTH_SHOWN = 40

Positions = Annotated[
    list[int] | None, typer.Argument(metavar="[POSITION]...", help="Positions of events, as `dead list` shows them.")
]
Channel = Annotated[
    str,
    typer.Option(
        "--channel",
        metavar="NAME",
        help="The message manager of these positions, where there are several, as `dead list` shows it.",
    ),
]
Queue = Annotated[str | None, typer.Option("--queue", metavar="NAME", help="Only those that this queue or topic gave up.")]
Code = Annotated[
    str | None,
    typer.Option(
        "--code",
        metavar="CODE",
        help="Only those with this reason: expired, redelivered, failed, rejected, no-destination, deleted or unreadable.",
    ),
]
Since = Annotated[str | None, typer.Option("--since", metavar="DURATION", help="Only those of the last 1h, 90s, 2d …")]
All = Annotated[bool, typer.Option("--all", help="All dead events.")]
To = Annotated[str | None, typer.Option("--to", metavar="DESTINATION", help="Send them to this destination, not to their own.")]
Count = Annotated[int, typer.Option("--count", metavar="N", min=1, help="Show at most so many.")]

group = typer.Typer(help="Look at dead events, send them again, or throw them away.", no_args_is_help=True, rich_markup_mode=None)


def add_to(app: typer.Typer) -> None:
    app.add_typer(group, name="dead")


@group.command(
    "list",
    **help_text.described(
        "List the dead events: where, why and when each was given up.",
        [
            "holdfast send returns --property sku=7 && holdfast destination delete returns --force && holdfast dead list",
            "holdfast dead list --queue returns --code deleted --since 1h",
            'holdfast dead list --selector "sku = 7" --json',
        ],
    ),
)
def list_(
    selector: Selector = None,
    queue: Queue = None,
    code: Code = None,
    since: Since = None,
    count: Count = 1_000,
    url: Url = URL_DEFAULT,
    timeout: Timeout = None,
    json: Json = False,
) -> None:
    from holdfast.cli.output import as_cloud_event, show_rows

    def work(client: Client) -> Any:
        return client.dead.list(selector=selector, queue=queue, code=code, since=since, limit=count)

    events = ask(url, timeout, work)
    columns = (CHANNEL, *COLUMNS) if any(event.channel for event in events) else COLUMNS
    show_rows([as_cloud_event(event) if json else _row(event) for event in events], columns, as_json=json)


@group.command(
    "show",
    **help_text.described(
        "Show one dead event, with its data, and its deaths since it was sent or replayed; without a position, the oldest.",
        ["holdfast dead show", "holdfast dead show --json"],
    ),
)
def show_(
    position: Annotated[
        int | None, typer.Argument(metavar="[POSITION]", help="The position of an event, as `dead list` shows it.")
    ] = None,
    channel: Channel = "",
    url: Url = URL_DEFAULT,
    timeout: Timeout = None,
    json: Json = False,
) -> None:
    from holdfast.cli.output import as_cloud_event, show

    shown = as_cloud_event(ask(url, timeout, lambda client: _one(client, position, channel)))
    show(shown if json else {**shown, "position": str(shown["position"])}, as_json=json)


async def _one(client: Client, position: int | None, channel: str) -> BrowsedEvent:
    from holdfast.errors import NoSuchPosition

    if position is not None:
        return await client.dead.show(position, channel=channel)
    for event in await client.dead.list(limit=1):
        return event
    raise NoSuchPosition("there are no dead events; every accepted event was delivered, or waits")


@group.command(
    "replay",
    **help_text.described(
        "Send dead events again, unchanged, to their own destination or another; each exactly once.",
        [
            'holdfast dead replay --selector "sku = 7" --to returned',
            "holdfast dead replay --queue returns --since 1h",
            "holdfast dead replay --all",
        ],
    ),
)
def replay(
    positions: Positions = None,
    channel: Channel = "",
    all_: All = False,
    selector: Selector = None,
    queue: Queue = None,
    code: Code = None,
    since: Since = None,
    to: To = None,
    url: Url = URL_DEFAULT,
    timeout: Timeout = None,
    json: Json = False,
) -> None:
    from holdfast.cli.output import counted, show

    def work(client: Client) -> Any:
        return client.dead.replay(
            positions or None,
            channel=channel,
            selector=selector,
            queue=queue,
            code=code,
            since=since,
            everything=all_,
            to=to,
            progress=_progress("sent again"),
        )

    replayed = ask(url, timeout, work)
    show({"replayed": replayed}, as_json=json, sentence=f"sent {counted(replayed)} again")


@group.command(
    "purge",
    **help_text.described(
        "Throw dead events away, for good.",
        [
            'holdfast dead purge --selector "amount < 10"',
            "holdfast dead purge --queue returns --code deleted",
            "holdfast dead purge --all",
        ],
    ),
)
def purge(
    positions: Positions = None,
    channel: Channel = "",
    all_: All = False,
    selector: Selector = None,
    queue: Queue = None,
    code: Code = None,
    since: Since = None,
    url: Url = URL_DEFAULT,
    timeout: Timeout = None,
    json: Json = False,
) -> None:
    from holdfast.cli.output import counted, show

    def work(client: Client) -> Any:
        return client.dead.purge(
            positions or None,
            channel=channel,
            selector=selector,
            queue=queue,
            code=code,
            since=since,
            everything=all_,
            progress=_progress("thrown away"),
        )

    purged = ask(url, timeout, work)
    show({"purged": purged}, as_json=json, sentence=f"threw {counted(purged)} away")


def _progress(what: str) -> Any:
    """A count that overwrites itself on a terminal; nothing elsewhere."""
    import sys

    if not sys.stderr.isatty():
        return None
    return lambda done: print(f"\r{done:,} {what}", end="", file=sys.stderr, flush=True)


def _row(event: BrowsedEvent) -> dict[str, Any]:
    death = event.dead[-1]
    reason = death.reason.partition("\n")[0]
    return {
        CHANNEL: event.channel,
        "position": str(event.position),
        "destination": event.destination,
        "subscription": death.subscription,
        "code": death.code,
        "reason": _cut(reason, REASON_LENGTH_SHOWN),
        "deliveries": death.deliveries,
        "when": death.when.isoformat(timespec="seconds") if death.when is not None else None,
        "type": event.type,
        "data": _data(event),
    }


def _data(event: BrowsedEvent) -> str:
    """The beginning of its data, on one line; of a large event its size."""
    import msgspec

    from holdfast.cli.output import as_cloud_event

    shown = as_cloud_event(event)
    if "bytes" in shown:
        return f"{shown['bytes']:,} bytes"
    return _cut(msgspec.json.encode(shown.get("data", shown.get("data_base64"))).decode(), DATA_LENGTH_SHOWN)


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"
