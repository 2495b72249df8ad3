"""`holdfast user`: add, list and remove users in the users file of a server. Access rules are added with an editor."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli import help_text
from holdfast.cli.options import Json, expanded

COLUMNS = ("name", "password", "certificate", "groups", "rules")
HINT = "may do nothing until a rule allows it; add [[access]] to the file, then send the server SIGHUP"
EXITS = (0, 1, 2)

UsersFile = Annotated[
    Path, typer.Argument(metavar="FILE", help="The users file of a server (`holdfast serve --users FILE`).", parser=expanded)
]
UserName = Annotated[str, typer.Argument(metavar="NAME", help="The name of the user.")]
PasswordStdin = Annotated[
    bool, typer.Option("--password-stdin", help="Read the password from stdin, one line, instead of asking at the terminal.")
]
Certificate = Annotated[
    str,
    typer.Option(
        "--certificate", metavar="NAME", help="A name in a client certificate that logs this user in, without a password."
    ),
]

group = typer.Typer(help="Add, list and remove users in a server's users file.", no_args_is_help=True, rich_markup_mode=None)


def add_to(app: typer.Typer) -> None:
    app.add_typer(group, name="user")


@group.command(
    "add",
    **help_text.described(
        "Add a user. The password is asked for, and only its hash is kept. The file is created if it is missing.",
        [
            "echo 'correct horse' | holdfast user add ./users.toml alice --password-stdin",
            "holdfast user add ./users.toml robot --certificate robot.example.com",
        ],
        EXITS,
    ),
)
def add(
    file: UsersFile, name: UserName, password_stdin: PasswordStdin = False, certificate: Certificate = "", json: Json = False
) -> None:
    from holdfast.cli.output import show
    from holdfast.node.login import users_file
    from holdfast.node.login.passwords import hashed

    needs_password = password_stdin or not certificate
    users_file.check_new(file, name)
    users_file.add(file, name, hashed(_password(name, password_stdin)) if needs_password else "", certificate)
    show({"name": name, "added": True}, as_json=json, sentence=f"added {name!r} to {file}; {name} {HINT}")


@group.command(
    "password",
    **help_text.described(
        "Give a user a new password. Links of that user are made anew when the server has read the file again.",
        ["echo 'battery staple' | holdfast user password ./users.toml alice --password-stdin"],
        EXITS,
    ),
)
def password(file: UsersFile, name: UserName, password_stdin: PasswordStdin = False, json: Json = False) -> None:
    from holdfast.cli.output import show
    from holdfast.node.login import users_file
    from holdfast.node.login.passwords import hashed

    users_file.check_known(file, name)
    users_file.change_password(file, name, hashed(_password(name, password_stdin)))
    show({"name": name, "changed": True}, as_json=json, sentence=f"changed the password of {name!r}; send the server SIGHUP")


@group.command(
    "list",
    **help_text.described(
        "List the users: how each logs in, the groups, and the number of rules.",
        ["holdfast user list ./users.toml", "holdfast user list ./users.toml --json"],
        EXITS,
    ),
)
def list_(file: UsersFile, json: Json = False) -> None:
    from holdfast.cli.output import show_rows
    from holdfast.node.login import users_file

    users = users_file.load(file)
    rows = [
        {
            "name": user.name,
            "password": bool(user.password),
            "certificate": user.certificate,
            "groups": ", ".join(users.access.groups_of(user.name)),
            "rules": len(users.access.of(user.name).rules),
        }
        for user in users.by_name.values()
    ]
    show_rows(rows, COLUMNS, as_json=json)


@group.command(
    "remove",
    **help_text.described(
        "Remove a user. Remove rules and groups that name the user first.",
        ["holdfast user remove ./users.toml robot"],
        EXITS,
    ),
)
def remove(file: UsersFile, name: UserName, json: Json = False) -> None:
    from holdfast.cli.output import show
    from holdfast.node.login import users_file

    users_file.remove(file, name)
    show({"name": name, "removed": True}, as_json=json, sentence=f"removed {name!r} from {file}; send the server SIGHUP")


def _password(name: str, is_stdin: bool) -> str:
    import sys

    if is_stdin:
        return sys.stdin.readline().rstrip("\r\n")
    if not sys.stdin.isatty():
        from holdfast.errors import BadSetting

        raise BadSetting("there is no terminal for the password; give it with --password-stdin", setting="password")
    answer: str = typer.prompt(f"Password of {name}", hide_input=True, confirmation_prompt=True)
    return answer
