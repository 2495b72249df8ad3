"""`holdfast destination`: the queues and topics there are."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli import help_text
from holdfast.cli.options import URL_DEFAULT, DestinationName, Json, Timeout, Topic, Url

if TYPE_CHECKING:
    from holdfast.client.administration import DestinationSettings
    from holdfast.client.client import Client

COLUMNS = ("name", "kind", "waiting", "in_flight", "receivers", "is_blocked")
RedeliveryLimit = Annotated[
    int | None,
    typer.Option("--redelivery-limit", metavar="N", min=0, help="After so many deliveries an event goes to _DMQ; 0 for never."),
]
RedeliveryDelay = Annotated[
    float | None,
    typer.Option("--redelivery-delay", metavar="SECONDS", min=0, help="How long what was released waits; 0 for not at all."),
]
RedeliveryFactor = Annotated[
    int | None, typer.Option("--redelivery-factor", metavar="N", min=1, help="Each time so many times as long.")
]
RedeliveryDelayMax = Annotated[
    float | None, typer.Option("--redelivery-delay-max", metavar="SECONDS", min=0, help="But never longer; 0 for no limit.")
]
EventsMax = Annotated[
    int | None,
    typer.Option("--events-max", metavar="N", min=0, help="Hold producers back while so many events wait; 0 for no limit."),
]
BytesMax = Annotated[
    str | None,
    typer.Option("--bytes-max", metavar="SIZE", help="Hold producers back while so much waits, such as 64M; 0 for no limit."),
]
LowPercent = Annotated[
    int | None,
    typer.Option("--low-percent", metavar="N", min=1, max=100, help="Until only so much of that waits, in percent; 80 is usual."),
]

group = typer.Typer(
    help="List, create, configure, look at and delete queues and topics.", no_args_is_help=True, rich_markup_mode=None
)


def add_to(app: typer.Typer) -> None:
    app.add_typer(group, name="destination")


def ask(url: str, timeout: float, question: Callable[[Client], Awaitable[Any]]) -> Any:
    """Open a client, ask, close it."""
    from holdfast.cli.running import run

    async def work() -> Any:
        import holdfast

        async with holdfast.connect(url, name="holdfast", timeout=timeout) as client:
            return await question(client)

    return run(work())


@group.command(
    "create",
    **help_text.described(
        "Create a queue, or a topic.",
        [
            "holdfast destination create invoices --redelivery-limit 5 --redelivery-delay 2 --redelivery-factor 2",
            "holdfast destination create alarms --topic",
        ],
    ),
)
def create(
    name: DestinationName,
    topic: Topic = False,
    redelivery_limit: RedeliveryLimit = None,
    redelivery_delay: RedeliveryDelay = None,
    redelivery_factor: RedeliveryFactor = None,
    redelivery_delay_max: RedeliveryDelayMax = None,
    events_max: EventsMax = None,
    bytes_max: BytesMax = None,
    low_percent: LowPercent = None,
    url: Url = URL_DEFAULT,
    timeout: Timeout = 30.0,
    json: Json = False,
) -> None:
    from holdfast.cli.output import show

    settings = _settings(
        redelivery_limit, redelivery_delay, redelivery_factor, redelivery_delay_max, events_max, bytes_max, low_percent
    )
    kind = "topic" if topic else "queue"
    ask(url, timeout, lambda client: (client.create_topic if topic else client.create_queue)(name, **settings))
    show({"name": name, "kind": kind, "created": True}, as_json=json, sentence=f"created {kind} {name!r}")


@group.command(
    "configure",
    **help_text.described(
        "Change what is set for a queue or topic; what is not named stays as it is.",
        [
            "holdfast destination configure invoices --events-max 100000 --low-percent 50",
            "holdfast destination configure invoices --redelivery-limit 0 --bytes-max 1G",
        ],
    ),
)
def configure(
    name: DestinationName,
    redelivery_limit: RedeliveryLimit = None,
    redelivery_delay: RedeliveryDelay = None,
    redelivery_factor: RedeliveryFactor = None,
    redelivery_delay_max: RedeliveryDelayMax = None,
    events_max: EventsMax = None,
    bytes_max: BytesMax = None,
    low_percent: LowPercent = None,
    url: Url = URL_DEFAULT,
    timeout: Timeout = 30.0,
    json: Json = False,
) -> None:
    from holdfast.cli.output import show

    settings = _settings(
        redelivery_limit, redelivery_delay, redelivery_factor, redelivery_delay_max, events_max, bytes_max, low_percent
    )
    ask(url, timeout, lambda client: client.configure(name, **settings))
    show({"name": name, "configured": settings}, as_json=json, sentence=f"configured {name!r}")


def _settings(
    redelivery_limit: int | None, redelivery_delay: float | None, redelivery_factor: int | None,
    redelivery_delay_max: float | None, events_max: int | None, bytes_max: str | None, low_percent: int | None,
) -> DestinationSettings:  # fmt: skip
    """Those that were given."""
    from holdfast.node.settings import parse_size

    given: DestinationSettings = {}
    if redelivery_limit is not None:
        given["redelivery_limit"] = redelivery_limit
    if redelivery_delay is not None:
        given["redelivery_delay"] = redelivery_delay
    if redelivery_factor is not None:
        given["redelivery_factor"] = redelivery_factor
    if redelivery_delay_max is not None:
        given["redelivery_delay_max"] = redelivery_delay_max
    if events_max is not None:
        given["events_max"] = events_max
    if bytes_max is not None:
        given["bytes_max"] = parse_size(bytes_max, "--bytes-max")
    if low_percent is not None:
        given["low_percent"] = low_percent
    return given


@group.command(
    "list",
    **help_text.described(
        "List the queues and topics, with what waits in each.",
        [
            "holdfast destination list",
            "holdfast destination list --json",
        ],
    ),
)
def list_(url: Url = URL_DEFAULT, timeout: Timeout = 30.0, json: Json = False) -> None:
    from holdfast.cli.output import show_rows

    show_rows(ask(url, timeout, lambda client: client.destinations()), COLUMNS, as_json=json)


@group.command(
    "show",
    **help_text.described(
        "Show one queue or topic.", ["holdfast destination show invoices", "holdfast destination show alarms --json"]
    ),
)
def show_(name: DestinationName, url: Url = URL_DEFAULT, timeout: Timeout = 30.0, json: Json = False) -> None:
    from holdfast.cli.output import show

    show(ask(url, timeout, lambda client: client.describe(name)), as_json=json)


@group.command(
    "delete",
    **help_text.described("Delete a queue or topic; what waits in it goes to _DMQ.", ["holdfast destination delete invoices"]),
)
def delete(name: DestinationName, url: Url = URL_DEFAULT, timeout: Timeout = 30.0, json: Json = False) -> None:
    from holdfast.cli.output import show

    ask(url, timeout, lambda client: client.delete(name))
    show({"name": name, "deleted": True}, as_json=json, sentence=f"deleted {name!r}")
