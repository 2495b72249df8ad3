"""`holdfast journal`: judge and look at the files of a journal, and at what they hold. Read only; the journal may be in use."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli import help_text
from holdfast.cli.options import Json

if TYPE_CHECKING:
    from holdfast.client.browser import BrowsedEvent
    from holdfast.node.observer import ObservedReading, Observer

COLUMNS = ("name", "state", "generation", "first_entry", "entries", "bytes")
EXIT_CODES = {"whole": 0, "torn tail": 0, "damaged": 5, "newer version": 1, "not a journal": 1}

JournalFolder = Annotated[
    Path,
    typer.Argument(metavar="DIR", help="The data folder of a server or program, the folder of a recorder, or the journal in it."),
]

DataFolder = Annotated[Path, typer.Argument(metavar="DIR", help="The data folder of a server or program, or the journal in it.")]
OfDestination = Annotated[
    str | None, typer.Option("--destination", metavar="NAME", help="Of this queue or topic; without it, of all.")
]
OfSubscription = Annotated[
    str | None, typer.Option("--subscription", metavar="NAME", help="Of this subscription; without it, of all of a topic.")
]
Selector = Annotated[
    str | None, typer.Option("--selector", metavar="CONDITION", help='Those that match, such as "amount > 100".')
]
Count = Annotated[int | None, typer.Option("--count", metavar="N", min=1, help="Show at most so many; without it, all.")]

group = typer.Typer(
    help="Judge and look at the files of a journal, changing nothing.", no_args_is_help=True, rich_markup_mode=None
)


def add_to(app: typer.Typer) -> None:
    app.add_typer(group, name="journal")


def journal_in(folder: Path) -> Path:
    """The journal of a data folder or of a recorder's, or the folder itself."""
    inside = (folder / name for name in ("journal", "recording"))
    return next((each for each in inside if each.is_dir()), folder)


@group.command(
    "verify",
    **help_text.described(
        "Read a whole journal and say whether it is whole, has a torn tail, or is damaged, and where.",
        ["holdfast journal verify ./recorder", "holdfast journal verify ./events --json"],
        help_text.LOCAL,
        {0: "whole, or with the torn tail of a crash, which opening repairs", 3: "it cannot be read"},
    ),
)
def verify(folder: JournalFolder, json: Json = False) -> None:
    import msgspec

    from holdfast.channel.journal.inspection import verify
    from holdfast.cli.failure import report
    from holdfast.cli.output import show

    found = verify(journal_in(folder))
    code = EXIT_CODES[found.state]
    if json or code == 0:
        show(msgspec.to_builtins(found), as_json=json, sentence=f"{folder}: {found.sentence}")
    else:
        report(found.state, f"{folder}: {found.sentence}", as_json=False)
    raise typer.Exit(code)


@group.command(
    "show",
    **help_text.described(
        "List the segments of a journal: which entries each has, how full it is, which are spare.",
        ["holdfast journal show ./recorder", "holdfast journal show ./events --json"],
        help_text.LOCAL,
        {3: "it cannot be read"},
    ),
)
def show_(folder: JournalFolder, json: Json = False) -> None:
    import msgspec

    from holdfast.channel.journal.inspection import show as look
    from holdfast.cli.output import show, show_rows

    found = msgspec.to_builtins(look(journal_in(folder)))
    if json:
        show(found, as_json=True)
        return
    segments = found.pop("segments")
    show(found, as_json=False)
    show_rows(segments, COLUMNS, as_json=False)


@group.command(
    "events",
    **help_text.described(
        "Print what waits in a data folder, oldest first, without a server: the data of each as a line of JSON (--json: the "
        "whole event); nothing is taken, and whoever owns the folder goes on.",
        [
            "holdfast journal events ./events",
            "holdfast journal events ./events --destination _DMQ --json",
            'holdfast journal events ./events --selector "amount > 100" --count 10',
        ],
        help_text.LOCAL,
        {3: "it cannot be read"},
    ),
)
def events(
    folder: DataFolder,
    destination: OfDestination = None,
    subscription: OfSubscription = None,
    selector: Selector = None,
    count: Count = None,
    json: Json = False,
) -> None:
    from itertools import islice

    from holdfast.cli.output import json_line, print_line
    from holdfast.cli.receive import as_cloud_event, data_of
    from holdfast.node.observer import Observer

    with Observer(folder) as observer:
        found = (each for reading in _readings(observer, destination, subscription) for each in _events(reading, selector))
        for reading, event in islice(found, count):
            where = {"subscription": reading.subscription} if reading.subscription else {}
            print_line(json_line({**as_cloud_event(event), **where} if json else data_of(event)))


def _readings(observer: Observer, destination: str | None, subscription: str | None) -> Iterator[ObservedReading]:
    """Every queue and subscription that is meant, of patterns too; refused when one that is named is not there."""
    if destination is not None and subscription is not None:
        yield observer.reading(destination, subscription)
        return
    if destination is not None:
        observer.describe(destination)
    for name, subscribed, match in observer.backlogs():
        if destination in (None, name) and subscription in (None, subscribed):
            yield observer.reading(name, subscribed, match=match)


def _events(reading: ObservedReading, selector: str | None) -> Iterator[tuple[ObservedReading, BrowsedEvent]]:
    from holdfast.client.browser import BrowsedEvent
    from holdfast.client.received import Handed

    extent = reading.extent()
    for each in reading.slices(extent.start, extent.end, selector):
        handed = Handed(reading, each.batch, each.first, each.events, 0, 0, 0, each.destination, accepted_us=each.accepted_us)
        yield from ((reading, BrowsedEvent(handed, index)) for index in range(each.events))
