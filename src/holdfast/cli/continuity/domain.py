"""`holdfast domain`: create, list, show, change and delete domains, and see how they are."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from holdfast.cli import help_text
from holdfast.cli.options import URL_DEFAULT, Json, Timeout, Url, expanded
from holdfast.cli.question import ask

DomainName = Annotated[str, typer.Argument(metavar="DOMAIN", help="The name of a domain.")]
ServerName = Annotated[str, typer.Argument(metavar="SERVER", help="The name of a server, as its listener has it.")]
DefinitionFile = Annotated[
    Path | None,
    typer.Option("--definition", metavar="FILE", help="Take the definition from this TOML file.", parser=expanded),
]
Order = Annotated[
    Literal["domain", "session", "key"] | None,
    typer.Option("--order", help="Requests go one after the other in the domain, in each session, or for each key."),
]
KeyPath = Annotated[
    list[str] | None,
    typer.Option(
        "--key-path", metavar="REGEX", help="A key of order is the first group of this in the path, as in '/accounts/([^/]+)'."
    ),
]
ServersMin = Annotated[
    int | None, typer.Option("--servers-min", metavar="N", min=1, help="Take requests only while so many servers are current.")
]
AnswerMode = Annotated[
    Literal["first", "agreed"] | None,
    typer.Option("--answer", help="Give the first answer, or the first that two servers agree on."),
]
ReadRoute = Annotated[
    list[str] | None,
    typer.Option("--read", metavar="PATH", help="GET and HEAD of this path are reads, as in '/accounts/*'; may be repeated."),
]
StreamRoute = Annotated[
    list[str] | None,
    typer.Option(
        "--stream", metavar="PATH", help="GET of this path is passed through to one server: server-sent events, WebSocket."
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Delete it although requests wait in it.")]

STATUS_COLUMNS = ("server", "site", "role", "state", "finished", "lag", "first", "in_doubt", "keys", "held_against")
CARRIER_COLUMNS = ("name", "waiting", "under_way", "in_doubt", "results")

group = typer.Typer(
    help="Create, list, show and delete domains: applications whose requests several servers process.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


def add_to(app: typer.Typer) -> None:
    app.add_typer(group, name="domain")


@group.command(
    "create",
    **help_text.described(
        "Create a domain: an application with several servers, all of which get every request.",
        [
            "holdfast domain create shop",
            "holdfast domain create bank --order key --key-path '/accounts/([^/]+)' --read '/accounts/*/balance'",
            "holdfast domain create vault --answer agreed --servers-min 2",
        ],
    ),
)
def create(
    name: DomainName,
    order: Order = None,
    key_path: KeyPath = None,
    servers_min: ServersMin = None,
    answer: AnswerMode = None,
    read: ReadRoute = None,
    stream: StreamRoute = None,
    definition: DefinitionFile = None,
    url: Url = URL_DEFAULT,
    timeout: Timeout = None,
    json: Json = False,
) -> None:
    from holdfast.cli.output import show
    from holdfast.continuity import definition_file, register

    given = _given(order, key_path, servers_min, answer, read, stream)
    domain = definition_file.read(name, definition, given)
    ask(url, timeout, lambda client: register.create(client, domain))
    show({"domain": name, "created": True}, as_json=json, sentence=f"created domain {name!r}")


def _given(
    order: str | None, key_path: list[str] | None, servers_min: int | None, answer: str | None, read: list[str] | None,
    stream: list[str] | None,
) -> dict[str, Any]:  # fmt: skip
    """The settings that were said on the command line."""
    given: dict[str, Any] = {"order": order, "servers_min": servers_min, "answer": answer}
    given["keys"] = [{"path": each} for each in key_path] if key_path else None
    reads, streams = [{"path": each} for each in read or []], [{"path": each, "kind": "stream"} for each in stream or []]
    given["routes"] = streams + reads or None
    return {name: value for name, value in given.items() if value is not None}


@group.command("list", **help_text.described("List the domains.", ["holdfast domain list", "holdfast domain list --json"]))
def list_(url: Url = URL_DEFAULT, timeout: Timeout = None, json: Json = False) -> None:
    from holdfast.cli.output import show_rows
    from holdfast.continuity import register

    names = ask(url, timeout, register.names)
    show_rows([{"domain": name} for name in names], ("domain",), as_json=json)


@group.command(
    "show",
    **help_text.described("Show the definition of a domain.", ["holdfast domain show shop", "holdfast domain show bank --json"]),
)
def show_(name: DomainName, url: Url = URL_DEFAULT, timeout: Timeout = None, json: Json = False) -> None:
    import msgspec

    from holdfast.cli.output import show
    from holdfast.continuity import register

    domain = ask(url, timeout, lambda client: register.read(client, name))
    show(msgspec.to_builtins(domain), as_json=json)


@group.command(
    "status",
    **help_text.described(
        "Show how a domain is: its level, its servers and engines, who lags, who answers first.",
        ["holdfast domain status shop", "holdfast domain status shop --json"],
    ),
)
def status(name: DomainName, url: Url = URL_DEFAULT, timeout: Timeout = None, json: Json = False) -> None:
    from holdfast.cli.output import show, show_rows
    from holdfast.continuity import domain_status

    told = ask(url, timeout, lambda client: domain_status.ask(client, name))
    if json:
        show(told, as_json=True)
        return
    show({key: value for key, value in told.items() if not isinstance(value, list)}, as_json=False)
    for each in told["servers"]:
        each["state"] += ", unknown" if each["unknown"] else ""
        each["held_against"] = ", ".join(f"{kind} {count}" for kind, count in each["held_against"].items())
    show_rows(told["servers"], STATUS_COLUMNS, as_json=False)
    if told["carriers"]:
        show_rows(told["carriers"], CARRIER_COLUMNS, as_json=False)
    for sentence in told["attention"]:
        typer.echo(f"! {sentence}")


@group.command(
    "drain",
    **help_text.described(
        "Take a server out in good order: it finishes what it has, and is not waited for any more.",
        ["holdfast domain drain shop a"],
    ),
)
def drain(name: DomainName, server: ServerName, url: Url = URL_DEFAULT, timeout: Timeout = None, json: Json = False) -> None:
    _change("drain", "is drained", name, server, url, timeout, json)


@group.command(
    "rebuild",
    **help_text.described(
        "Have a server rebuilt from a snapshot and the history, because its state is not to be trusted.",
        ["holdfast domain rebuild shop a"],
    ),
)
def rebuild(name: DomainName, server: ServerName, url: Url = URL_DEFAULT, timeout: Timeout = None, json: Json = False) -> None:
    _change("rebuild", "is to be rebuilt", name, server, url, timeout, json)


def _change(kind: str, done: str, name: str, server: str, url: str, timeout: float | None, json: bool) -> None:
    from holdfast.cli.output import show
    from holdfast.continuity import register

    ask(url, timeout, lambda client: register.change_member(client, name, kind, server))
    show({"domain": name, "server": server, "kind": kind}, as_json=json, sentence=f"server {server!r} of domain {name!r} {done}")


@group.command(
    "delete",
    **help_text.described(
        "Delete a domain. While requests wait for a server, that is refused; with --force they are lost.",
        ["holdfast domain delete vault --force"],
    ),
)
def delete(name: DomainName, force: Force = False, url: Url = URL_DEFAULT, timeout: Timeout = None, json: Json = False) -> None:
    from holdfast.cli.output import show
    from holdfast.continuity import register

    ask(url, timeout, lambda client: register.delete(client, name, force=force))
    show({"domain": name, "deleted": True}, as_json=json, sentence=f"deleted domain {name!r}")
