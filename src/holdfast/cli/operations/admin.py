"""`holdfast admin`: send a request to `_ADMIN`, and wait for the answer of the server."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from holdfast.cli import help_text
from holdfast.cli.options import URL_DEFAULT, Timeout, Url
from holdfast.cli.question import ask

Action = Annotated[str, typer.Argument(metavar="ACTION", help="The action: list, describe, create, configure, delete, status …")]
Arguments = Annotated[
    list[str] | None,
    typer.Argument(metavar="[NAME=VALUE]...", help="Its arguments. A value is JSON, or else text."),
]


def add_to(app: typer.Typer) -> None:
    app.command(
        **help_text.described(
            "Ask the server to do something, through its durable queue _ADMIN, and print its answer as JSON.",
            [
                "holdfast admin status",
                "holdfast admin create name=parcels kind=queue events_max=10000",
                "holdfast admin describe name=parcels",
            ],
        )
    )(admin)


def admin(action: Action, arguments: Arguments = None, url: Url = URL_DEFAULT, timeout: Timeout = None) -> None:
    from holdfast.cli.output import json_line, print_line
    from holdfast.errors import by_code

    given = _parsed(arguments or [])
    answer = ask(
        url, timeout, lambda client: client.queue("_ADMIN").request(given, type=f"holdfast.admin.{action}", timeout=timeout)
    ).data
    if "error" in answer:
        raise by_code(answer["error"], answer["sentence"], {})
    print_line(json_line(answer["value"]))


def _parsed(arguments: list[str]) -> dict[str, Any]:
    from holdfast.cli.events.event_options import parse_data
    from holdfast.errors import BadSetting

    given: dict[str, Any] = {}
    for each in arguments:
        name, equals, value = each.partition("=")
        if not equals or not name:
            raise BadSetting(f"argument {each!r} is not NAME=VALUE; write it like name=orders", argument=each)
        given[name] = parse_data(value)
    return given
