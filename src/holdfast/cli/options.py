"""Options that several commands share, in one place so that they read alike everywhere."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

import typer


def expanded(text: str) -> Path:
    """A path in which `~` stands for the home folder: a shell does not expand it in --data=~/events."""
    return Path(text).expanduser()


URL_DEFAULT = "holdfast://127.0.0.1:7400"

Url = Annotated[
    str,
    typer.Option(
        "--url",
        envvar="HOLDFAST_URL",
        metavar="URL",
        help="The server or folder: holdfast://HOST[:PORT], holdfasts://USER@HOST (password: HOLDFAST_PASSWORD) or file:DIR.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print for programs: JSON, one value a line; errors as JSON on stderr.")]
Timeout = Annotated[
    float | None,
    typer.Option(
        "--timeout",
        metavar="SECONDS",
        min=0.001,
        help="How long to wait for an answer; without it, 30, and 3 for the first answer of a server.",
    ),
]
LogLevel = Annotated[
    Literal["debug", "info", "warning", "error"], typer.Option("--log-level", help="The least level that is logged on stderr.")
]
DestinationName = Annotated[str, typer.Argument(metavar="DESTINATION", help="The name of a queue or topic.")]
Folder = Annotated[Path, typer.Argument(metavar="DIR", help="A folder.", parser=expanded)]
Data = Annotated[
    str, typer.Option("--data", metavar="JSON|@FILE|-", help="The data: JSON (or plain text), @FILE for a file, - for stdin.")
]
Type = Annotated[str, typer.Option("--type", metavar="TYPE", help="The type of the event, such as order.placed.")]
Subject = Annotated[str | None, typer.Option("--subject", metavar="TEXT", help="What the event is about.")]
Property = Annotated[
    list[str] | None,
    typer.Option("--property", metavar="NAME=VALUE", help="A property for selectors; may be given several times."),
]
# Said by every `--selector`.
SEES = "A selector sees properties and attributes such as type, not the data."
Selector = Annotated[
    str | None, typer.Option("--selector", metavar="CONDITION", help=f'Only events that match, such as "amount > 100". {SEES}')
]
Count = Annotated[int | None, typer.Option("--count", metavar="N", min=1, help="Show at most so many; without it, all.")]
Topic = Annotated[bool, typer.Option("--topic", help="The destination is a topic, not a queue.")]
Force = Annotated[bool, typer.Option("--force", help="Delete it although events wait in it.")]
Update = Annotated[bool, typer.Option("--update", help="Change what differs; without it, that is refused.")]
IfExists = Annotated[bool, typer.Option("--if-exists", help="Do not fail if it is not there.")]


def keyword(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def with_options(added: Mapping[str, Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add options to a command that takes `**options`, before `--url`. The command gets those that were given."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def call(**arguments: Any) -> None:
            command(**{name: value for name, value in arguments.items() if name not in added or value is not None})

        hints = get_type_hints(command, include_extras=True)
        own = [keyword(name, hints[name], each.default) for name, each in inspect.signature(command).parameters.items()][:-1]
        place = next(place for place, each in enumerate(own) if each.name == "url")
        parameters = [*own[:place], *(keyword(name, hint, None) for name, hint in added.items()), *own[place:]]
        call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return call

    return decorate
