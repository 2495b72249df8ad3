"""`holdfast record` and `holdfast forward`: record events without a server, and send them to one later."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli import help_text
from holdfast.cli.options import URL_DEFAULT, Data, DestinationName, Json, Property, Subject, Timeout, Topic, Type, Url, expanded

RecorderFolder = Annotated[Path, typer.Argument(metavar="DIR", help="The folder of a recorder.", parser=expanded)]
Size = Annotated[str, typer.Option("--size", metavar="SIZE", help="All the space that a new recorder will ever use, such as 4M.")]


def add_to(app: typer.Typer) -> None:
    app.command(
        **help_text.described(
            "Record an event in a folder, without a server: it is on disk when this returns, and is forwarded later.",
            [
                """holdfast record ./recorder orders --data '{"sku": 10}' --type order.placed""",
                """printf '{"sku": 11}\\n{"sku": 12}\\n' | holdfast record ./recorder orders --data - --json""",
            ],
            help_text.LOCAL,
            {3: "the recorder is full; forward it, and record again"},
        )
    )(record)
    app.command(
        **help_text.described(
            "Send the events of a recorder to a server, in order; each arrives once, however often this is repeated.",
            ["holdfast forward ./recorder", "holdfast forward ./recorder --json --timeout 60"],
            (0, 1, 2, 3, 4, 5),
            {3: "no server, or not all in time; the rest is kept"},
        )
    )(forward)


def record(
    folder: RecorderFolder,
    destination: DestinationName,
    data: Data = "null",
    type: Type = "event",
    property: Property = None,
    subject: Subject = None,
    topic: Topic = False,
    size: Size = "4M",
    json: Json = False,
) -> None:
    from holdfast.cli.events.event_options import parse_properties, read_data
    from holdfast.cli.output import show
    from holdfast.node.settings import parse_size
    from holdfast.recorder.recorder import Recorder

    properties = parse_properties(property)
    with Recorder(folder, parse_size(size, "--size")) as recorder:
        for each in read_data(data):
            made = recorder.record(
                each, destination, "topic" if topic else "queue", type=type, subject=subject, properties=properties
            )  # fmt: skip
            sentence = f"recorded as number {made.sequence} in {folder}; {recorder.held} held"
            show({"sequence": made.sequence, "id": made.id, "held": recorder.held}, as_json=json, sentence=sentence)


def forward(folder: RecorderFolder, url: Url = URL_DEFAULT, timeout: Timeout = None, json: Json = False) -> None:
    from holdfast.cli.output import show
    from holdfast.client.url import without_password
    from holdfast.errors import NotAJournal
    from holdfast.recorder.recorder import Recorder
    from holdfast.recorder.recorder_contents import RecorderContents

    if not RecorderContents.is_in(folder):
        raise NotAJournal(
            f"there is no recorder in {folder}; name the folder that `holdfast record` was given", folder=str(folder)
        )
    with Recorder(folder) as recorder:
        done = recorder.forward(url, timeout)
    shown = without_password(url)
    sentence = f"forwarded {done.count:,} events to {shown}" + (f"; {done.skipped:,} had arrived before" if done.skipped else "")
    if done.missing:
        sentence += f"; {done.missing:,} that it lost when it was restored from a backup are not held here any more"
    found = {"count": done.count, "skipped": done.skipped, "missing": done.missing, "url": shown}
    show(found, as_json=json, sentence=sentence)
