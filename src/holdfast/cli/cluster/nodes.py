"""`holdfast cluster nodes`: the nodes of a cluster, and which configuration each has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from holdfast.cli import help_text
from holdfast.cli.cluster.cluster_options import Of, url_of
from holdfast.cli.options import URL_DEFAULT, Json, Timeout, Url

if TYPE_CHECKING:
    from holdfast.client.description import ClusterNodeRow, ClusterStatus

COLUMNS = ("node", "state", "copies", "primary of", "links", "settings", "users", "essential")


def add_to(group: typer.Typer) -> None:
    group.command(
        "nodes",
        **help_text.described(
            "Show the nodes of a cluster, as one of them hears the others: which are there, what each has a copy of and leads, "
            "how many clients it has, and which version of the shared settings and users. Those that did not answer are named.",
            ["holdfast cluster nodes --data ./cluster", "holdfast cluster nodes --data ./cluster --json"],
        ),
    )(nodes)


def nodes(data: Of = None, url: Url = URL_DEFAULT, timeout: Timeout = None, json: Json = False) -> None:
    from holdfast.cli.output import print_line, show, show_rows
    from holdfast.cli.question import ask

    told: ClusterStatus = ask(url_of(data, url), timeout, lambda client: client.cluster_status())
    if json:
        show({"nodes": told["nodes"], "silent": told["silent"], "different": told["different"]}, as_json=True)
        return
    show_rows([_row(node, told) for node in told["nodes"]], COLUMNS, as_json=False)
    print_line("")
    if told["different"]:
        print_line(f"other essential settings than {told['node']}: {', '.join(told['different'])}")
    print_line(f"did not answer: {', '.join(told['silent']) or 'none'}")


def _row(node: ClusterNodeRow, told: ClusterStatus) -> dict[str, Any]:
    leads = [manager["name"] for manager in told["managers"] if manager["primary"] == node["name"]]
    return {
        "node": node["name"],
        "state": "drained" if node["is_heard"] and node["is_drained"] else "there" if node["is_heard"] else "silent",
        "copies": ", ".join(node["copies"]) or "none",
        "primary of": ", ".join(leads) or "none",
        "links": node["links"],
        "settings": node["settings_version"],
        "users": node["users_version"],
        "essential": "different" if node["is_different"] else "same" if node["is_heard"] else "unknown",
    }
