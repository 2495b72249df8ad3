"""`holdfast receive`: events as lines, each confirmed after it was printed."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli import help_text
from holdfast.cli.options import URL_DEFAULT, DestinationName, Json, Topic, Url
from holdfast.event.event import PRIORITY_DEFAULT

if TYPE_CHECKING:
    from holdfast.client.client import Client
    from holdfast.client.received import Received, ReceivedEvent
    from holdfast.client.recipient import Incoming

TIMED_OUT = 3
# Events handed over ahead of printing.
CREDIT_MAX = 1_000
# How long a link may take: not longer than the wait for an event, but a short wait for an event is no reason to hurry.
LINK_SECONDS_MIN = 5.0
LINK_SECONDS_MAX = 30.0

Count = Annotated[int | None, typer.Option("--count", metavar="N", min=1, help="Stop after so many events; without it, go on.")]
Wait = Annotated[
    float | None,
    typer.Option("--timeout", metavar="SECONDS", min=0.001, help="Stop when no event comes for so long; without it, wait."),
]
Subscription = Annotated[
    str | None, typer.Option("--subscription", metavar="NAME", help="Receive from this durable subscription of a topic.")
]
Shared = Annotated[
    bool, typer.Option("--shared", help="The subscription is shared: each event goes to one of its receivers, however many.")
]
Selector = Annotated[
    str | None,
    typer.Option(
        "--selector",
        metavar="CONDITION",
        help='Only what matches, such as "amount > 100". A durable subscription with another is made anew, and loses what waits.',
    ),
]
NoConfirm = Annotated[bool, typer.Option("--no-confirm", help="Only look: the events are given back, and delivered again.")]

SaveTo = Annotated[
    Path | None,
    typer.Option("--save-to", metavar="DIR", help="Save the data of each event to a file in this folder, however large it is."),
]


def add_to(app: typer.Typer) -> None:
    app.command(
        **help_text.described(
            "Receive events and print the data of each as a line of JSON (--json: the whole event), confirming what was printed.",
            [
                "holdfast receive orders --count 1 --no-confirm --json",
                "holdfast receive orders --count 3",
                """holdfast receive orders --selector "amount > 100 AND type LIKE 'order.%'" --timeout 0.5""",
                "holdfast receive orders --count 1000 --json > orders.jsonl",
                "holdfast receive orders --count 1 --save-to .",
                "holdfast receive prices --subscription display --timeout 0.5",
            ],
            changed={
                0: "all that was asked for, or, without --count, all there was",
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
    no_confirm: NoConfirm = False,
    save_to: SaveTo = None,
    url: Url = URL_DEFAULT,
    json: Json = False,
) -> None:
    from holdfast.cli.failure import report
    from holdfast.cli.running import run

    got = run(
        _receive(
            url,
            destination,
            count,
            timeout,
            topic,
            subscription,
            shared,
            selector,
            save_to,
            is_confirming=not no_confirm,
            as_json=json,
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
    url: str, destination: str, count: int | None, timeout: float | None, is_topic: bool, subscription: str | None,
    is_shared: bool, selector: str | None, save_to: Path | None, *, is_confirming: bool, as_json: bool,
) -> int:  # fmt: skip
    import holdfast
    from holdfast.cli.files import checked_folder
    from holdfast.errors import TimedOut

    printed, folder = 0, checked_folder(save_to) if save_to is not None else None
    credit = min(count or CREDIT_MAX, CREDIT_MAX)
    async with (
        holdfast.connect(url, name="holdfast receive", timeout=max(timeout or LINK_SECONDS_MAX, LINK_SECONDS_MIN)) as client,
        await _incoming(client, destination, is_topic, subscription, is_shared, selector, credit) as incoming,
    ):
        while count is None or printed < count:
            try:
                event = await incoming.next(timeout)
            except TimedOut:
                break
            await _print(event, folder, is_confirming, as_json)
            printed += 1
    return printed


async def _incoming(
    client: Client,
    destination: str,
    is_topic: bool,
    subscription: str | None,
    is_shared: bool,
    selector: str | None,
    credit: int,
) -> Incoming:
    if subscription is not None:
        return await _subscribed(client, destination, subscription, is_shared, selector, credit)
    if is_topic:
        return client.subscribe(destination, selector=selector, credit=credit)
    return client.queue(destination).receive(selector=selector, credit=credit)


async def _subscribed(
    client: Client, topic: str, name: str, is_shared: bool, selector: str | None, credit: int
) -> Incoming:  # fmt: skip
    """A subscription that is there is received from as it is: another selector would make it anew, and lose what waits in it."""
    from holdfast.errors import NoSuchDestination

    try:
        rows = await client.subscriptions(topic)
        found = {each["name"]: each for each in rows if each["pattern"] in (None, topic)}.get(name, {})
    except NoSuchDestination:
        found = {}
    return client.subscribe(
        topic,
        name,
        shared=is_shared or found.get("is_shared", False),
        selector=selector if selector is not None else found.get("selector"),
        no_local=found.get("no_local", False),
        credit=credit,
    )


async def _print(event: ReceivedEvent, folder: Path | None, is_confirming: bool, as_json: bool) -> None:
    """Print or save, then confirm: what was neither printed nor saved is not confirmed."""
    from holdfast.cli.files import save
    from holdfast.cli.output import json_line, print_line
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


def data_of(event: Received) -> Any:
    """What is printed of an event; of one that is too large to be printed, what can be said of it."""
    if event.is_large:
        return {"id": event.id, "type": event.type, "bytes": event.size}
    data = event.data
    return base64.b64encode(data).decode() if isinstance(data, bytes) else data


def as_cloud_event(event: Received) -> dict[str, Any]:
    """The whole event with the names of CloudEvents in JSON; what is not set is left out. One that is too large to be printed has
    `bytes`, how many, in place of its data; a dead one has `dead`."""
    shown: dict[str, Any] = {
        "id": event.id,
        "source": event.source,
        "type": event.type,
        "time": event.time.isoformat(),
        "subject": event.subject,
        "datacontenttype": event.datacontenttype,
        "dataschema": event.dataschema,
        "properties": dict(event.properties) or None,
        "priority": event.priority if event.priority != PRIORITY_DEFAULT else None,
        "group": event.group,
        "correlation_id": event.correlation_id,
        "reply_to": event.reply_to,
        "destination": event.destination,
        "position": event.position,
        "accepted_at": event.accepted_at.isoformat() if event.accepted_at else None,
        "deliveries": event.deliveries or None,
        "dead": [{**death._asdict(), "when": death.when.isoformat() if death.when else None} for death in event.dead] or None,
    }
    shown = {name: value for name, value in shown.items() if value is not None}
    if event.is_large:
        return shown | {"bytes": event.size}
    data = event.data
    return shown | ({"data_base64": base64.b64encode(data).decode()} if isinstance(data, bytes) else {"data": data})
