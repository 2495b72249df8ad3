"""`holdfast status` and `holdfast version`."""

from __future__ import annotations

import typer

from holdfast.cli import help_text
from holdfast.cli.options import URL_DEFAULT, Json, Timeout, Url


def add_to(app: typer.Typer) -> None:
    app.command(
        **help_text.described(
            "Say how a server is: what it has applied, how much room is left, whether it is short of it.",
            ["holdfast status", "holdfast status --json"],
        )
    )(status)
    app.command(
        **help_text.described("Say which release this is.", ["holdfast version", "holdfast version --json"], help_text.PLAIN)
    )(version)  # fmt: skip


def status(url: Url = URL_DEFAULT, timeout: Timeout = 10.0, json: Json = False) -> None:
    from holdfast.cli.destination import ask
    from holdfast.cli.output import show

    show(ask(url, timeout, lambda client: client.status()), as_json=json)


def version(json: Json = False) -> None:
    import platform

    import holdfast
    from holdfast.cli.output import show

    release = {"holdfast": holdfast.__version__, "python": platform.python_version()}
    show(release, as_json=json, sentence=f"holdfast {release['holdfast']} (Python {release['python']})")
