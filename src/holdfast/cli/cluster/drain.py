"""`holdfast cluster drain`: empty a node before it is stopped, and take it back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli import help_text
from holdfast.cli.cluster.cluster_options import Of, url_of
from holdfast.cli.options import URL_DEFAULT, Json, Timeout, Url

if TYPE_CHECKING:
    from holdfast.client.description import Drained

Node = Annotated[str, typer.Argument(metavar="NODE", help="The node, as `holdfast cluster status` names it.")]
Undo = Annotated[bool, typer.Option("--undo", help="Take the node back: it takes clients again, and may lead.")]


def add_to(group: typer.Typer) -> None:
    group.command(
        "drain",
        **help_text.described(
            "Empty a node, to stop or upgrade it: its clients link to other nodes, others lead what it led, and it says when "
            "it is empty. No program sees an error. A node that starts again is not drained.",
            ["holdfast cluster drain node2 --data ./cluster", "holdfast cluster drain node2 --undo --data ./cluster --json"],
            help_text.CLIENT,
            {3: "no other node takes clients, and nothing has changed; or it is not empty in time, and goes on being emptied"},
        ),
    )(drain)


def drain(
    node: Node, undo: Undo = False, data: Of = None, url: Url = URL_DEFAULT, timeout: Timeout = None, json: Json = False
) -> None:
    from holdfast.cli.output import show
    from holdfast.cli.question import ask
    from holdfast.errors import TimedOut

    told: Drained = ask(url_of(data, url), timeout, lambda client: client.cluster_drain(node, undo=undo))
    if not told["is_done"]:
        raise TimedOut(
            f"{node} is not empty yet: {told['links']} clients are left, and it leads {', '.join(told['leads']) or 'nothing'}; "
            "look at `holdfast cluster status`"
        )
    done = f"{node} takes part again" if undo else f"{node} is empty: it has no clients, and leads nothing"
    show(told, as_json=json, sentence=done)
