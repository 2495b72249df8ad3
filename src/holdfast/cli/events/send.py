"""`holdfast send`: send one event, or many as fast as the server takes them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli import help_text
from holdfast.cli.options import URL_DEFAULT, Data, DestinationName, Json, Property, Subject, Timeout, Topic, Type, Url, expanded

if TYPE_CHECKING:
    from holdfast.client.sending.outgoing import EventFields

Count = Annotated[
    int, typer.Option("--count", metavar="N", min=1, help="Send it so many times, without waiting for each receipt.")
]

Priority = Annotated[int, typer.Option("--priority", metavar="0-9", min=0, max=9, help="9 is delivered first; without it, 4.")]
Ttl = Annotated[
    float | None, typer.Option("--ttl", metavar="SECONDS", min=0.001, help="Time to live: after so long the event goes to _DMQ.")
]
Delay = Annotated[float, typer.Option("--delay", metavar="SECONDS", min=0, help="Do not deliver it before so long has passed.")]
Group = Annotated[str | None, typer.Option("--group", metavar="NAME", help="Events of one group go to one recipient, in order.")]
Id = Annotated[
    str | None,
    typer.Option("--id", metavar="ID", help="The id of the event. A destination that deduplicates stores an id once."),
]
File = Annotated[
    Path | None,
    typer.Option(
        "--file", metavar="PATH", help="Send the content of this file as one event, however large it is.", parser=expanded
    ),
]


def add_to(app: typer.Typer) -> None:
    app.command(
        **help_text.described(
            "Send an event to a queue or topic, and return when it is on disk.",
            [
                """holdfast send orders --data '{"sku": 7}' --type order.placed --property amount=120""",
                """printf '{"sku": 8}\\n{"sku": 9}\\n' | holdfast send orders --data - --type order.placed""",
                "holdfast send orders --data hello --count 1000 --json",
                "printf 'I agree' > contract.txt && holdfast send contracts --file contract.txt --type contract.signed",
                "holdfast send orders --data urgent --priority 9 --ttl 60 --group customer-7",
                "holdfast send orders --data reminder --delay 0.5",
                "holdfast send orders --data 12.50 --id invoice-7",
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
    priority: Priority = 4,
    ttl: Ttl = None,
    delay: Delay = 0.0,
    group: Group = None,
    id: Id = None,
    topic: Topic = False,
    count: Count = 1,
    file: File = None,
    url: Url = URL_DEFAULT,
    timeout: Timeout = None,
    json: Json = False,
) -> None:
    import holdfast
    from holdfast.cli.events.event_options import parse_properties, read_data
    from holdfast.cli.output import show

    fields: EventFields = {"type": type, "subject": subject, "properties": parse_properties(property), "group": group}
    fields |= {"priority": priority, "delay_ms": round(delay * 1000)}
    if id is not None:
        fields["id"] = id
    if ttl is not None:
        fields["ttl_ms"] = max(1, round(ttl * 1000))
    if file is not None:
        _send_file(destination, file, fields, data=data, count=count, topic=topic, url=url, timeout=timeout, json=json)
        return
    events: Iterable[Any] = read_data(data)
    is_many = count > 1 or data == "-"
    if count > 1:
        events = (each for value in events for each in repeat(value, count))
    sent = holdfast.run(
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


def _send_file(
    destination: str,
    file: Path,
    fields: EventFields,
    *,
    data: str,
    count: int,
    topic: bool,
    url: str,
    timeout: float | None,
    json: bool,
) -> None:
    import holdfast
    from holdfast.cli.events.files import send_file, size_of
    from holdfast.cli.output import show
    from holdfast.errors import BadSetting

    async def sent() -> dict[str, Any]:
        if data != "null" or count != 1:
            raise BadSetting("--file is one event with the file as its data; leave --data and --count out", setting="file")
        size = size_of(file)
        receipt = await send_file(url, destination, file, size, fields, is_topic=topic, timeout=timeout)
        return {**_account(destination, [receipt], 0.0), "bytes": size}

    account = holdfast.run(sent())
    show(account, as_json=json, sentence=f"{_sentence(account)} ({account['bytes']:,} bytes)")


async def _send(
    url: str, destination: str, events: Iterable[Any], fields: EventFields, *, is_topic: bool, is_many: bool, total: int | None,
    timeout: float | None,
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
        account |= {"first_id": first.id, "last_id": last.id, "first_position": first.position, "last_position": last.position}
        account |= {"copies": last.copies, "is_synced": last.is_synced}
        if len(receipts) == 1 and first.is_repeated:
            account["is_repeated"] = True
    if seconds:
        account["events_per_second"] = round(len(receipts) / seconds)
    return account


def _sentence(sent: dict[str, Any]) -> str:
    from holdfast.cli.output import counted

    rate = f" ({sent['events_per_second']:,} events/s)" if "events_per_second" in sent else ""
    events = counted(sent["count"])
    if not sent["count"]:
        return "sent nothing: there was no data"
    if "is_repeated" in sent:
        return f"{sent['destination']!r} has taken this event before, and has it once: at position {sent['first_position']}"
    where = (
        f"position {sent['first_position']}"
        if sent["count"] == 1
        else f"positions {sent['first_position']} to {sent['last_position']}"
    )
    return f"sent {events} to {sent['destination']!r}{rate}: {'on disk' if sent['is_synced'] else 'accepted'} at {where}"


def _shown(events: Iterable[Any], total: int | None) -> Iterator[Any]:
    """The events, with progress and rate shown on a terminal."""
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
