"""`holdfast journal`: judge and look at the files of a journal. Read only; the journal may be in use."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli import help_text
from holdfast.cli.options import Json

COLUMNS = ("name", "state", "generation", "first_entry", "entries", "bytes")
EXIT_CODES = {"whole": 0, "torn tail": 0, "damaged": 5, "newer version": 1, "not a journal": 1}

JournalFolder = Annotated[
    Path,
    typer.Argument(metavar="DIR", help="The data folder of a server or program, the folder of a recorder, or the journal in it."),
]

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
