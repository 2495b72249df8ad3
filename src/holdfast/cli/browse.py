"""`holdfast browse`: what waits, as lines, without taking it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli import help_text
from holdfast.cli.options import URL_DEFAULT, DestinationName, Json, Timeout, Url

if TYPE_CHECKING:
    from holdfast.client.browser import Browser
    from holdfast.client.client import Client

Count = Annotated[int | None, typer.Option("--count", metavar="N", min=1, help="Show at most so many; without it, all.")]
Selector = Annotated[
    str | None, typer.Option("--selector", metavar="CONDITION", help='Those that match, such as "amount > 100".')
]
Subscription = Annotated[
    str | None, typer.Option("--subscription", metavar="NAME", help="Of this subscription of a topic or wildcard.")
]


def add_to(app: typer.Typer) -> None:
    app.command(
        **help_text.described(
            "Look at what waits, oldest first, and print the data of each as a line of JSON (--json: the whole event); "
            "nothing is taken.",
            [
                "holdfast browse orders",
                'holdfast browse orders --selector "amount > 100" --count 10 --json',
                "holdfast browse prices --subscription display",
                "holdfast browse _DMQ --json",
            ],
        )
    )(browse)


def browse(
    destination: DestinationName,
    selector: Selector = None,
    count: Count = None,
    subscription: Subscription = None,
    url: Url = URL_DEFAULT,
    timeout: Timeout = 30.0,
    json: Json = False,
) -> None:
    from holdfast.cli.running import run

    run(_browse(url, destination, selector, count, subscription, timeout, as_json=json))


async def _browse(
    url: str,
    destination: str,
    selector: str | None,
    count: int | None,
    subscription: str | None,
    timeout: float,
    *,
    as_json: bool,
) -> None:
    import holdfast
    from holdfast.cli.output import json_line, print_line
    from holdfast.cli.receive import as_cloud_event, data_of

    shown = 0
    async with (
        holdfast.connect(url, name="holdfast browse", timeout=timeout) as client,
        _browser(client, destination, subscription, selector, min(count or 200, 200)) as events,
    ):
        async for event in events:
            print_line(json_line(as_cloud_event(event) if as_json else data_of(event)))
            shown += 1
            if shown == count:
                return


def _browser(client: Client, destination: str, subscription: str | None, selector: str | None, page: int) -> Browser:
    if subscription is not None:
        return client.browse(destination, subscription, selector=selector, page=page)
    return client.queue(destination).browse(selector=selector, page=page)
