"""`holdfast browse`: print waiting events as lines, without taking them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli import help_text
from holdfast.cli.options import URL_DEFAULT, Count, DestinationName, Json, Selector, Timeout, Url

if TYPE_CHECKING:
    from holdfast.client.client import Client
    from holdfast.client.reading.browser import BrowseOptions, Browser

# Events that are asked for at a time.
PAGE_EVENTS = 200

Subscription = Annotated[
    str | None, typer.Option("--subscription", metavar="NAME", help="Look into this subscription of a topic or wildcard.")
]


def add_to(app: typer.Typer) -> None:
    app.command(
        **help_text.described(
            "Look at waiting events, oldest first, and print the data of each as a line of JSON (--json: the whole event); "
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
    timeout: Timeout = None,
    json: Json = False,
) -> None:
    import holdfast

    options: BrowseOptions = {"selector": selector, "page": min(count or PAGE_EVENTS, PAGE_EVENTS)}

    async def work() -> None:
        async with (
            holdfast.connect(url, name="holdfast browse", timeout=timeout) as client,
            _browser(client, destination, subscription, options) as events,
        ):
            await _print(events, count, as_json=json)

    holdfast.run(work())


def _browser(client: Client, destination: str, subscription: str | None, options: BrowseOptions) -> Browser:
    if subscription is not None:
        return client.browse(destination, subscription, **options)
    return client.queue(destination).browse(**options)


async def _print(events: Browser, count: int | None, *, as_json: bool) -> None:
    from holdfast.cli.output import as_cloud_event, data_of, json_line, print_line

    shown = 0
    async for event in events:
        print_line(json_line(as_cloud_event(event) if as_json else data_of(event)))
        shown += 1
        if shown == count:
            return
