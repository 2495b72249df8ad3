"""Options that several commands have, said in one place so that they read alike everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

URL_DEFAULT = "holdfast://127.0.0.1:7400"

Url = Annotated[
    str,
    typer.Option(
        "--url",
        envvar="HOLDFAST_URL",
        metavar="URL",
        help="Where the events are: holdfast://HOST[:PORT], holdfasts://USER@HOST (password: HOLDFAST_PASSWORD) or file:DIR.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print for programs: JSON, one value a line; errors as JSON on stderr.")]
Timeout = Annotated[float, typer.Option("--timeout", metavar="SECONDS", min=0.001, help="How long to wait for an answer.")]
DestinationName = Annotated[str, typer.Argument(metavar="DESTINATION", help="The name of a queue or topic.")]
Folder = Annotated[Path, typer.Argument(metavar="DIR", help="A folder.")]
Data = Annotated[
    str, typer.Option("--data", metavar="JSON|@FILE|-", help="The data: JSON (or plain text), @FILE for a file, - for stdin.")
]
Type = Annotated[str, typer.Option("--type", metavar="TYPE", help="The type of the event, such as order.placed.")]
Subject = Annotated[str | None, typer.Option("--subject", metavar="TEXT", help="What the event is about.")]
Property = Annotated[
    list[str] | None,
    typer.Option("--property", metavar="NAME=VALUE", help="A property for selectors; may be given several times."),
]
Topic = Annotated[bool, typer.Option("--topic", help="The destination is a topic, not a queue.")]
