"""`holdfast backup` and `holdfast restore`: a checked copy of a data folder in use, and a new folder from one."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli import help_text
from holdfast.cli.options import Json, expanded

DataFolder = Annotated[
    Path, typer.Argument(metavar="DIR", help="The data folder of a server or program, which may be running.", parser=expanded)
]
Target = Annotated[
    Path,
    typer.Argument(metavar="TARGET", help="The folder of the backup, best on another disk; made if missing.", parser=expanded),
]
NewFolder = Annotated[Path, typer.Argument(metavar="DIR", help="The new data folder: missing, or empty.", parser=expanded)]
FinishedBackup = Annotated[
    Path, typer.Argument(metavar="TARGET", help="The folder that `holdfast backup` was given.", parser=expanded)
]


def add_to(app: typer.Typer) -> None:
    app.command(
        **help_text.described(
            "Copy a data folder, in use or not, into the folder of a backup: all that was receipted before it began; only what "
            "changed since the last time is copied, and all of it is read back and judged.",
            ["holdfast backup ./events ./backup", "holdfast backup ./events ./backup --json"],
            help_text.LOCAL,
            {
                3: "a disk failed, another backup is under way, or the journal changes too fast; the former backup stays",
                5: "the journal is damaged; the former backup stays",
            },
        )
    )(backup)
    app.command(
        **help_text.described(
            "Make a new data folder from a backup: a new incarnation, so that clients, recorders and Spark take nothing of the "
            "lost future for known.",
            ["holdfast restore ./backup ./restored", "holdfast restore ./backup ./restored-too --json"],
            help_text.LOCAL,
            {
                1: "refused: DIR holds something, or TARGET holds no backup",
                3: "a disk failed or is full; nothing was restored",
                5: "the backup is damaged; use another one",
            },
        )
    )(restore)


def backup(folder: DataFolder, target: Target, json: Json = False) -> None:
    import msgspec

    import holdfast
    from holdfast.backup.backup import back_up
    from holdfast.cli.output import in_units, show

    with _bar(is_wanted=not json) as progress:
        made = back_up(folder, target, holdfast.__version__, progress)
    sentence = (
        f"backed up {folder} to {target}: entries {made.first:,} to {made.entry:,}, {in_units(made.bytes)} in "
        f"{_counted(made.segments)}; copied {_counted(made.copied_segments)}, {in_units(made.copied_bytes)}; read back, and whole"
    )
    if made.left_out:
        sentence += f"; left out as too large: {', '.join(made.left_out)}"
    show(msgspec.to_builtins(made), as_json=json, sentence=sentence)


def restore(target: FinishedBackup, folder: NewFolder, json: Json = False) -> None:
    import msgspec

    from holdfast.backup.restore import restore
    from holdfast.cli.output import show

    with _bar(is_wanted=not json) as progress:
        made = restore(target, folder, progress)
    sentence = (
        f"restored {folder} as of {made.made_at}: entries {made.first:,} to {made.entry:,}, incarnation {made.incarnation}; what "
        "was accepted later is not in it"
    )
    show(msgspec.to_builtins(made), as_json=json, sentence=sentence)


def _counted(segments: int) -> str:
    return "1 segment" if segments == 1 else f"{segments:,} segments"


@contextmanager
def _bar(*, is_wanted: bool) -> Iterator[Callable[[str, int, int], None] | None]:
    """Show what is being done, on a terminal."""
    if not (is_wanted and sys.stderr.isatty()):
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("looking", total=None)
        yield lambda what, size, done: bar.update(task, description=what, total=size, completed=done)
