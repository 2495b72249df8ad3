"""`holdfast destination`: the queues and topics there are."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli import help_text
from holdfast.cli.options import URL_DEFAULT, DestinationName, Json, Timeout, Topic, Url

if TYPE_CHECKING:
    from holdfast.client.client import Client

COLUMNS = ("name", "kind", "waiting", "in_flight", "receivers")
RedeliveryLimit = Annotated[
    int,
    typer.Option("--redelivery-limit", metavar="N", min=0, help="After so many deliveries an event goes to _DMQ; 0 for never."),
]

group = typer.Typer(help="List, create, look at and delete queues and topics.", no_args_is_help=True, rich_markup_mode=None)


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
            "holdfast destination create invoices --redelivery-limit 5",
            "holdfast destination create alarms --topic",
        ],
    ),
)
def create(
    name: DestinationName,
    topic: Topic = False,
    redelivery_limit: RedeliveryLimit = 0,
    url: Url = URL_DEFAULT,
    timeout: Timeout = 30.0,
    json: Json = False,
) -> None:
    from holdfast.cli.output import show

    kind = "topic" if topic else "queue"
    ask(
        url,
        timeout,
        lambda client: (client.create_topic if topic else client.create_queue)(name, redelivery_limit=redelivery_limit),
    )
    show({"name": name, "kind": kind, "created": True}, as_json=json, sentence=f"created {kind} {name!r}")


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
