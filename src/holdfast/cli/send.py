"""`holdfast send`: one event, or many as fast as they are taken."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from itertools import repeat
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli import help_text
from holdfast.cli.options import URL_DEFAULT, Data, DestinationName, Json, Property, Subject, Timeout, Topic, Type, Url

if TYPE_CHECKING:
    from holdfast.client.outgoing import EventFields

Count = Annotated[
    int, typer.Option("--count", metavar="N", min=1, help="Send it so many times, without waiting for each receipt.")
]


def add_to(app: typer.Typer) -> None:
    app.command(
        **help_text.described(
            "Send an event to a queue or topic, and return when it is on disk there.",
            [
                """holdfast send orders --data '{"sku": 7}' --type order.placed --property amount=120""",
                """printf '{"sku": 8}\\n{"sku": 9}\\n' | holdfast send orders --data - --type order.placed""",
                "holdfast send orders --data hello --count 1000 --json",
                """holdfast send prices --topic --data '{"EURUSD": 1.09}' --subject EURUSD""",
            ],
        )
    )(send)


def send(
    destination: DestinationName,
    data: Data = "null",
    type: Type = "event",
    property: Property = None,
    subject: Subject = None,
    topic: Topic = False,
    count: Count = 1,
    url: Url = URL_DEFAULT,
    timeout: Timeout = 30.0,
    json: Json = False,
) -> None:
    from holdfast.cli.event_options import parse_properties, read_data
    from holdfast.cli.output import show
    from holdfast.cli.running import run

    fields: EventFields = {"type": type, "subject": subject, "properties": parse_properties(property)}
    events: Iterable[Any] = read_data(data)
    is_many = count > 1 or data == "-"
    if count > 1:
        events = (each for value in events for each in repeat(value, count))
    sent = run(
        _send(
            url,
            destination,
            events,
            fields,
            is_topic=topic,
            is_many=is_many,
            total=count if data != "-" else None,
            timeout=timeout,
        )
    )
    show(sent, as_json=json, sentence=_sentence(sent))


async def _send(
    url: str, destination: str, events: Iterable[Any], fields: EventFields, *, is_topic: bool, is_many: bool, total: int | None,
    timeout: float,
) -> dict[str, Any]:  # fmt: skip
    import holdfast

    async with holdfast.connect(url, name="holdfast send", timeout=timeout) as client:
        place = client.topic(destination) if is_topic else client.queue(destination)
        if not is_many:
            receipt = await place.send(next(iter(events)), **fields)
            receipts = [receipt]
            return _account(destination, receipts, 0.0)
        began = time.monotonic()
        async with place.pipeline() as pipeline:
            for each in _shown(events, total):
                await pipeline.send(each, **fields)
        return _account(destination, pipeline.receipts, time.monotonic() - began)


def _account(destination: str, receipts: Any, seconds: float) -> dict[str, Any]:
    account: dict[str, Any] = {"destination": destination, "count": len(receipts)}
    if receipts:
        first, last = receipts[0], receipts[-1]
        account |= {"first_id": first.id, "first_position": first.position, "last_position": last.position}
        account |= {"copies": last.copies, "is_synced": last.is_synced}
    if seconds:
        account["events_per_second"] = round(len(receipts) / seconds)
    return account


def _sentence(sent: dict[str, Any]) -> str:
    rate = f" ({sent['events_per_second']:,} events/s)" if "events_per_second" in sent else ""
    events = "1 event" if sent["count"] == 1 else f"{sent['count']:,} events"
    if not sent["count"]:
        return "sent nothing: there was no data"
    where = (
        f"position {sent['first_position']}"
        if sent["count"] == 1
        else f"positions {sent['first_position']} to {sent['last_position']}"
    )
    return f"sent {events} to {sent['destination']!r}{rate}: {'on disk' if sent['is_synced'] else 'accepted'} at {where}"


def _shown(events: Iterable[Any], total: int | None) -> Iterator[Any]:
    """The events, with a bar of progress and rate while a person is looking."""
    import sys

    if not sys.stderr.isatty():
        yield from events
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[rate]}"), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task, began = progress.add_task("sending", total=total, rate=""), time.monotonic()
        for number, event in enumerate(events, 1):
            yield event
            if number % 1_000 == 0:
                progress.update(task, completed=number, rate=f"{number / (time.monotonic() - began):,.0f} events/s")
