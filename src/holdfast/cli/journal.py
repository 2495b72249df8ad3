"""`holdfast journal`: judge and look at the files of a journal. Read only."""

from __future__ import annotations

from pathlib import Path

import typer

from holdfast.cli import help_text
from holdfast.cli.options import Folder, Json

group = typer.Typer(
    help="Judge and look at the files of a journal, changing nothing.", no_args_is_help=True, rich_markup_mode=None
)


def add_to(app: typer.Typer) -> None:
    app.add_typer(group, name="journal")


def journal_in(folder: Path) -> Path:
    """The journal of a data folder or of a recorder's, or the folder itself."""
    inside = folder / "journal"
    return inside if inside.is_dir() else folder
