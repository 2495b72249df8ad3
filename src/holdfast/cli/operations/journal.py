"""`holdfast journal`: judge the files of a journal, and show what they hold. Reads only; the journal may be in use."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli import help_text
from holdfast.cli.options import Count, Json, Selector, expanded

if TYPE_CHECKING:
    from holdfast.client.reading.browser import BrowsedEvent
    from holdfast.node.observer import ObservedReading, Observer

COLUMNS = ("name", "state", "generation", "first_entry", "entries", "bytes")
EXIT_CODES = {"whole": 0, "torn tail": 0, "damaged": 5, "newer version": 1, "not a journal": 1}

JournalFolder = Annotated[
    Path,
    typer.Argument(
        metavar="DIR",
        help="The data folder of a server or program, the folder of a recorder, or the journal in it.",
        parser=expanded,
    ),
]

DataFolder = Annotated[
    Path, typer.Argument(metavar="DIR", help="The data folder of a server or program, or the journal in it.", parser=expanded)
]
OfDestination = Annotated[
    str | None, typer.Option("--destination", metavar="NAME", help="Events of this queue or topic; without it, of all.")
]
OfSubscription = Annotated[
    str | None,
    typer.Option("--subscription", metavar="NAME", help="Events of this subscription; without it, of all subscriptions."),
]

group = typer.Typer(
    help="Judge the files of a journal, and show what they hold, changing nothing.", no_args_is_help=True, rich_markup_mode=None
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
        {0: "whole, or with the torn tail of a crash, which opening repairs", 3: "the journal cannot be read"},
    ),
)
def verify(folder: JournalFolder, json: Json = False) -> None:
    import msgspec

    from holdfast.channel.journal.reading.inspection import verify
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
        "List the segments of a journal: the entries of each, how full it is, and which are spare.",
        ["holdfast journal show ./recorder", "holdfast journal show ./events --json"],
        help_text.LOCAL,
        {3: "the journal cannot be read"},
    ),
)
def show_(folder: JournalFolder, json: Json = False) -> None:
    import msgspec

    from holdfast.channel.journal.reading.inspection import show as look
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
        "Print the waiting events of a data folder, oldest first, without a server: the data of each as a line of JSON (--json: "
        "the whole event); nothing is taken, and the owner of the folder goes on.",
        [
            "holdfast journal events ./events",
            "holdfast journal events ./events --destination _DMQ --json",
            'holdfast journal events ./events --selector "amount > 100" --count 10',
        ],
        help_text.LOCAL,
        {3: "the journal cannot be read"},
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

    from holdfast.cli.output import as_cloud_event, data_of, json_line, print_line
    from holdfast.node.observer import Observer

    with Observer(folder) as observer:
        found = (each for reading in _readings(observer, destination, subscription) for each in _events(reading, selector))
        for reading, event in islice(found, count):
            where = {"subscription": reading.subscription} if reading.subscription else {}
            print_line(json_line({**as_cloud_event(event), **where} if json else data_of(event)))


def _readings(observer: Observer, destination: str | None, subscription: str | None) -> Iterator[ObservedReading]:
    """Every queue and subscription that the options name, those of patterns too. A name that is not there is refused."""
    if destination is not None and subscription is not None:
        yield observer.reading(destination, subscription)
        return
    if destination is not None:
        observer.describe(destination)
    for name, subscribed, match in observer.backlogs():
        if destination in (None, name) and subscription in (None, subscribed):
            yield observer.reading(name, subscribed, match=match)


def _events(reading: ObservedReading, selector: str | None) -> Iterator[tuple[ObservedReading, BrowsedEvent]]:
    from holdfast.client.reading.browser import BrowsedEvent
    from holdfast.client.receiving.received_event import ReceivedSlice

    extent = reading.extent()
    for each in reading.slices(extent.start, extent.end, selector):
        received = ReceivedSlice(
            reading, each.batch, each.first, each.events, 0, 0, 0, each.destination, accepted_us=each.accepted_us
        )
        yield from ((reading, BrowsedEvent(received, index)) for index in range(each.events))
