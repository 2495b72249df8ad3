"""`holdfast cluster takeover`: have a message manager led by another node, without a failure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli import help_text
from holdfast.cli.cluster.cluster_options import Of, url_of
from holdfast.cli.options import URL_DEFAULT, Json, Timeout, Url

if TYPE_CHECKING:
    from holdfast.client.description import Takeover

Manager = Annotated[str, typer.Argument(metavar="MANAGER", help="The message manager, as `holdfast cluster status` names it.")]
To = Annotated[
    str, typer.Option("--to", metavar="NODE", help="The node that takes over; without it, the first that can, by its rank.")
]


def add_to(group: typer.Typer) -> None:
    group.command(
        "takeover",
        **help_text.described(
            "Have another node lead a message manager: the present primary resigns, and its successor claims at once. Deliveries "
            "pause for a moment, and programs that send, receive and confirm see no error.",
            ["holdfast cluster takeover m1 --data ./cluster", "holdfast cluster takeover m1 --to node1 --data ./cluster --json"],
            help_text.CLIENT,
            {3: "nobody can take over now: nothing has changed"},
        ),
    )(takeover)


def takeover(
    manager: Manager, to: To = "", data: Of = None, url: Url = URL_DEFAULT, timeout: Timeout = None, json: Json = False
) -> None:
    from holdfast.cli.output import show
    from holdfast.cli.question import ask

    told: Takeover = ask(url_of(data, url), timeout, lambda client: client.cluster_takeover(manager, to=to))
    if told["primary"] == told["former"]:
        sentence = f"{told['primary']} leads {manager} already"
    else:
        sentence = f"{told['primary']} leads {manager} now, in place of {told['former']}; it took {told['took_ms']} ms"
    show(told, as_json=json, sentence=sentence)
