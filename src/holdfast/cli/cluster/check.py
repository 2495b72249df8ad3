"""`holdfast cluster check`: compare the copies of each message manager."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from holdfast.cli import help_text
from holdfast.cli.cluster.cluster_options import Of, url_of
from holdfast.cli.options import URL_DEFAULT, Json, Timeout, Url

if TYPE_CHECKING:
    from holdfast.client.description import CheckedCopy, CheckedManager, ClusterCheck

COLUMNS = ("manager", "entry", "node", "role", "digest", "result")
DIGEST_LENGTH = 12
DIFFERENT, SILENT = 1, 3


def add_to(group: typer.Typer) -> None:
    group.command(
        "check",
        **help_text.described(
            "Compare the copies of each message manager: all tell the digest of their state at one entry of its channel. It may "
            "be done under load. A backup that differs from its primary is stopped, and opened anew from a snapshot.",
            ["holdfast cluster check --data ./cluster", "holdfast cluster check --data ./cluster --json"],
            help_text.CLIENT,
            {0: "all copies are equal", 1: "a copy differs; or refused", 3: "not all copies answered; those that did are equal"},
        ),
    )(check)


def check(data: Of = None, url: Url = URL_DEFAULT, timeout: Timeout = None, json: Json = False) -> None:
    from holdfast.cli.question import ask

    show_check(ask(url_of(data, url), timeout, lambda client: client.cluster_check()), as_json=json)


def show_check(told: ClusterCheck, *, as_json: bool) -> None:
    """Print it, and end with the exit code for it."""
    from holdfast.cli.output import show

    if as_json:
        show(told, as_json=True)
    else:
        _show(told)
    if not told["is_equal"]:
        raise typer.Exit(DIFFERENT)
    if not told["is_complete"]:
        raise typer.Exit(SILENT)


def _show(told: ClusterCheck) -> None:
    from holdfast.cli.output import print_line, show_rows

    show_rows([_row(manager, copy) for manager in told["managers"] for copy in manager["copies"]], COLUMNS, as_json=False)
    print_line("")
    for manager in told["managers"]:
        if manager["problem"]:
            print_line(f"{manager['name']} was not checked: {manager['problem']}")
        if manager["primary"] in manager["differing"]:
            print_line(
                f"{manager['primary']}, the primary of {manager['name']}, differs from most copies: have another lead "
                f"(`holdfast cluster takeover {manager['name']}`), and check again"
            )
    differing = [f"{node} ({manager['name']})" for manager in told["managers"] for node in manager["differing"]]
    silent = [f"{node} ({manager['name']})" for manager in told["managers"] for node in manager["silent"]]
    print_line(f"differ: {', '.join(differing) or 'none'}")
    print_line(f"did not answer: {', '.join(silent) or 'none'}")


def _row(manager: CheckedManager, copy: CheckedCopy) -> dict[str, Any]:
    return {
        "manager": manager["name"],
        "entry": manager["entry"],
        "node": copy["node"],
        "role": "unknown" if copy["digest"] is None else "primary" if copy["is_primary"] else "backup",
        "digest": (copy["digest"] or "")[:DIGEST_LENGTH],
        "result": _result(copy),
    }


def _result(copy: CheckedCopy) -> str:
    if copy["is_equal"] is None:
        return "did not answer"
    if copy["is_equal"]:
        return "equal"
    return "differs; opened anew" if copy["is_opened_anew"] else "differs"
