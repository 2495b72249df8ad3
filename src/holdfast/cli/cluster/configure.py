"""`holdfast cluster configure`: show what the nodes of a cluster share, and change it at all of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli import help_text
from holdfast.cli.cluster.cluster_options import Of, url_of
from holdfast.cli.options import URL_DEFAULT, Json, Timeout, Url

if TYPE_CHECKING:
    from holdfast.client.description import ClusterConfiguration

USERS = "users"
COLUMNS = ("setting", "value", "from")

Key = Annotated[str, typer.Argument(metavar="KEY", help="The setting, as `--show` names it; or `users`.", show_default=False)]
NewValue = Annotated[
    str,
    typer.Argument(
        metavar="VALUE", help="Its new value; `default` for that of this release. For `users`, a users file.", show_default=False
    ),
]
Show = Annotated[bool, typer.Option("--show", help="Change nothing; show what the cluster has.")]


def add_to(group: typer.Typer) -> None:
    group.command(
        "configure",
        **help_text.described(
            "Change a setting, or all users, at every node of a cluster, and tell which nodes have it. It survives restarts, and "
            "nodes that are away get it when they are back. With --show, or without KEY, show what the cluster has.",
            [
                "holdfast cluster configure --show --data ./cluster",
                "holdfast cluster configure session-grace-ms 8000 --data ./cluster",
                "holdfast cluster configure session-grace-ms default --data ./cluster --json",
            ],
            help_text.CLIENT,
            {3: "the cluster cannot be asked now: nothing has changed"},
        ),
    )(configure)


def configure(
    key: Key = "",
    value: NewValue = "",
    show: Show = False,
    data: Of = None,
    url: Url = URL_DEFAULT,
    timeout: Timeout = None,
    json: Json = False,
) -> None:
    from holdfast.cli.output import show as show_answer
    from holdfast.cli.question import ask
    from holdfast.errors import BadSetting

    if bool(key) != bool(value) or (key and show):
        raise BadSetting("give KEY and VALUE to change a setting, or --show alone to see them all", setting="key")
    given = _users_text(Path(value)) if key == USERS else value
    where = url_of(data, url)
    told: ClusterConfiguration = ask(
        where, timeout, lambda client: client.configure_cluster(key, given) if key else client.cluster_configuration()
    )
    if json:
        show_answer(told, as_json=True)
    elif key:
        _show_change(key, told)
    else:
        _show_all(told)


def _users_text(file: Path) -> str:
    from holdfast.node.login import users_file

    return users_file.load_text(file.expanduser())


def _show_change(key: str, told: ClusterConfiguration) -> None:
    from holdfast.cli.output import print_line

    version = told["users_version"] if key == USERS else told["settings_version"]
    name = key.replace("-", "_")
    what = ", ".join(told["users"] or []) if key == USERS else told["settings"][name]
    print_line(f"{name} is {what} since version {version}, at {', '.join(told['reached']) or 'no node yet'}")
    _show_missing(told)


def _show_all(told: ClusterConfiguration) -> None:
    from holdfast.cli.output import print_line, show_rows

    changed = f"version {told['settings_version']}"
    rows = [
        {"setting": key, "value": value, "from": changed if key in told["changed"] else "release"}
        for key, value in told["settings"].items()
    ]
    users = "none, everybody is welcome" if told["users"] is None else ", ".join(told["users"]) or "none, nobody can log in"
    rows.append(
        {"setting": USERS, "value": users, "from": f"version {told['users_version']}" if told["users_version"] else "none"}
    )
    rows += [{"setting": key, "value": value, "from": "cluster.toml"} for key, value in told["essential"].items()]
    show_rows(rows, COLUMNS, as_json=False)
    print_line("")
    if not told["is_joined"]:
        print_line("this node could not ask the cluster when it started: it shows its own copy")
    _show_missing(told)


def _show_missing(told: ClusterConfiguration) -> None:
    from holdfast.cli.output import print_line

    print_line(f"did not answer: {', '.join(told['not_reached']) or 'none'}")
