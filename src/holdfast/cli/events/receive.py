"""`holdfast receive`: print events as lines, and confirm each after it was printed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli import help_text
from holdfast.cli.options import SEES, URL_DEFAULT, DestinationName, Json, Topic, Url, expanded

if TYPE_CHECKING:
    from holdfast.client.client import Client
    from holdfast.client.receiving.incoming import Incoming
    from holdfast.client.receiving.receive_options import SubscribeOptions
    from holdfast.client.receiving.received_event import ReceivedEvent

TIMED_OUT = 3
# Events handed over ahead of printing.
CREDIT_MAX = 1_000
# Seconds that a link may take at least, however short the wait for an event is.
LINK_SECONDS_MIN = 5.0

Count = Annotated[int | None, typer.Option("--count", metavar="N", min=1, help="Stop after so many events; without it, go on.")]
Wait = Annotated[
    float | None,
    typer.Option(
        "--timeout", metavar="SECONDS", min=0.001, help="Stop when no event comes for so long; without it, wait for ever."
    ),
]
Subscription = Annotated[
    str | None, typer.Option("--subscription", metavar="NAME", help="Receive from this durable subscription of a topic.")
]
Shared = Annotated[bool, typer.Option("--shared", help="Share the subscription: each event goes to one of its receivers.")]
Selector = Annotated[
    str | None,
    typer.Option(
        "--selector",
        metavar="CONDITION",
        help=f'Only events that match, such as "amount > 100". {SEES} A durable subscription has one of its own: see --replace.',
    ),
]
Replace = Annotated[
    bool,
    typer.Option("--replace", help="Replace a durable subscription that has another selector; events that wait in it are lost."),
]
TakeOver = Annotated[
    bool,
    typer.Option(
        "--take-over", help="Take the place of the receiver that the durable subscription has, if it is the same user's."
    ),
]
NoConfirm = Annotated[bool, typer.Option("--no-confirm", help="Confirm nothing: the events are given back, and delivered again.")]

SaveTo = Annotated[
    Path | None,
    typer.Option(
        "--save-to",
        metavar="DIR",
        help="Save the data of each event to a file in this folder, however large it is.",
        parser=expanded,
    ),
]


def add_to(app: typer.Typer) -> None:
    app.command(
        **help_text.described(
            "Receive events, print the data of each as a line of JSON (--json: the whole event), and confirm what was printed.",
            [
                "holdfast receive orders --count 1 --no-confirm --json",
                "holdfast receive orders --count 3",
                """holdfast receive orders --selector "amount > 100 AND type LIKE 'order.%'" --timeout 0.5""",
                "holdfast receive orders --count 1000 --json > orders.jsonl",
                "holdfast receive orders --count 1 --save-to .",
                "holdfast receive prices --subscription display --timeout 0.5",
                "holdfast receive prices --subscription display --take-over --timeout 0.5",
            ],
            changed={
                0: "--count events came; without --count, no event came for --timeout seconds",
                3: "fewer than --count came in time, or no server",
            },
        )
    )(receive)


def receive(
    destination: DestinationName,
    count: Count = None,
    timeout: Wait = None,
    topic: Topic = False,
    subscription: Subscription = None,
    shared: Shared = False,
    selector: Selector = None,
    replace: Replace = False,
    take_over: TakeOver = False,
    no_confirm: NoConfirm = False,
    save_to: SaveTo = None,
    url: Url = URL_DEFAULT,
    json: Json = False,
) -> None:
    import holdfast
    from holdfast.cli.events.files import checked_folder
    from holdfast.cli.failure import report

    folder = checked_folder(save_to) if save_to is not None else None
    options: SubscribeOptions = {"selector": selector, "credit": min(count or CREDIT_MAX, CREDIT_MAX)}
    if subscription is not None:
        options |= {"shared": shared, "replace": replace, "take_over": take_over}
    got = holdfast.run(
        _receive(
            url,
            count,
            timeout,
            lambda client: _incoming(client, destination, topic, subscription, options),
            lambda event: _print(event, folder, not no_confirm, json),
        )
    )
    if count is not None and got < count:
        report(
            "timed-out",
            f"{got} of {count} events came from {destination!r} before {timeout:g} s passed without one",
            as_json=json,
        )
        raise typer.Exit(TIMED_OUT)


async def _receive(
    url: str,
    count: int | None,
    timeout: float | None,
    receiver: Callable[[Client], Awaitable[Incoming]],
    take: Callable[[ReceivedEvent], Awaitable[None]],
) -> int:
    """Take events until `count` came, or none for `timeout` seconds: how many."""
    import holdfast
    from holdfast.cli.output import while_read
    from holdfast.errors import TimedOut

    taken, link_timeout = 0, None if timeout is None else max(timeout, LINK_SECONDS_MIN)
    async with (
        holdfast.connect(url, name="holdfast receive", timeout=link_timeout) as client,
        await receiver(client) as incoming,
    ):
        with while_read():
            while count is None or taken < count:
                try:
                    event = await incoming.next(timeout)
                except TimedOut:
                    break
                await take(event)
                taken += 1
    return taken


async def _incoming(
    client: Client, destination: str, is_topic: bool, subscription: str | None, options: SubscribeOptions
) -> Incoming:
    if subscription is not None:
        return await _subscribed(client, destination, subscription, options)
    if is_topic:
        return client.subscribe(destination, **options)
    return client.queue(destination).receive(selector=options["selector"], credit=options["credit"])


async def _subscribed(client: Client, topic: str, name: str, options: SubscribeOptions) -> Incoming:
    """Receive from a subscription as it is, unless another selector is given."""
    from holdfast.errors import NoSuchDestination

    try:
        rows = await client.subscriptions(topic)
        found = {each["name"]: each for each in rows if each["pattern"] in (None, topic)}.get(name, {})
    except NoSuchDestination:
        found = {}
    merged: SubscribeOptions = {
        **options,
        "shared": options["shared"] or found.get("is_shared", False),
        "selector": options["selector"] if options["selector"] is not None else found.get("selector"),
        "no_local": found.get("no_local", False),
    }
    return client.subscribe(topic, name, **merged)


async def _print(event: ReceivedEvent, folder: Path | None, is_confirming: bool, as_json: bool) -> None:
    """Print or save an event, then confirm it."""
    from holdfast.cli.events.files import save
    from holdfast.cli.output import as_cloud_event, data_of, json_line, print_line
    from holdfast.errors import TooLarge

    if folder is not None:
        print_line(json_line(await save(event, folder)))
    elif event.is_large:
        raise TooLarge(
            f"event {event.id} has {event.size:,} bytes, too many to print; save it with --save-to DIR", size=event.size
        )
    else:
        print_line(json_line(as_cloud_event(event) if as_json else data_of(event)))
    if is_confirming:
        await event.confirm()
