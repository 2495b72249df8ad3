"""`holdfast subscription`: the durable subscriptions of topics."""

from __future__ import annotations

from typing import Annotated

import typer

from holdfast.cli import help_text
from holdfast.cli.destination import ask
from holdfast.cli.options import URL_DEFAULT, Json, Timeout, Url

COLUMNS = ("name", "is_durable", "is_shared", "no_local", "selector", "pattern", "waiting", "receivers")

TopicName = Annotated[str, typer.Argument(metavar="TOPIC", help="The name of a topic, or a wildcard such as 'alerts.*'.")]
Selector = Annotated[
    str | None, typer.Option("--selector", metavar="CONDITION", help='Keep only what matches, such as "amount > 100".')
]
Shared = Annotated[bool, typer.Option("--shared", help="Let several receivers share its events.")]
NoLocal = Annotated[bool, typer.Option("--no-local", help="Keep nothing that the client that receives from it sends.")]
SubscriptionName = Annotated[str, typer.Argument(metavar="NAME", help="The name of a subscription.")]

group = typer.Typer(help="List, create and delete durable subscriptions of topics.", no_args_is_help=True, rich_markup_mode=None)


def add_to(app: typer.Typer) -> None:
    app.add_typer(group, name="subscription")


@group.command(
    "create",
    **help_text.described(
        "Create a durable subscription, so that events are kept for it from now on.",
        [
            "holdfast subscription create prices archive",
            'holdfast subscription create prices large --selector "amount > 100" --shared',
            "holdfast subscription create 'alerts.*' pager",
        ],
    ),
)
def create(
    topic: TopicName,
    name: SubscriptionName,
    selector: Selector = None,
    shared: Shared = False,
    no_local: NoLocal = False,
    url: Url = URL_DEFAULT,
    timeout: Timeout = 30.0,
    json: Json = False,
) -> None:
    from holdfast.cli.output import show

    ask(
        url,
        timeout,
        lambda client: client.create_subscription(topic, name, selector=selector, shared=shared, no_local=no_local),
    )
    show({"topic": topic, "name": name, "created": True}, as_json=json, sentence=f"created subscription {name!r} of {topic!r}")


@group.command(
    "list",
    **help_text.described(
        "List the subscriptions of a topic, with what waits in each.",
        [
            "holdfast subscription list prices",
            "holdfast subscription list prices --json",
        ],
    ),
)
def list_(topic: TopicName, url: Url = URL_DEFAULT, timeout: Timeout = 30.0, json: Json = False) -> None:
    from holdfast.cli.output import show_rows

    show_rows(ask(url, timeout, lambda client: client.subscriptions(topic)), COLUMNS, as_json=json)


@group.command(
    "delete",
    **help_text.described(
        "Delete a durable subscription, and what waits in it.", ["holdfast subscription delete prices archive"]
    ),
)
def delete(topic: TopicName, name: SubscriptionName, url: Url = URL_DEFAULT, timeout: Timeout = 30.0, json: Json = False) -> None:
    from holdfast.cli.output import show

    ask(url, timeout, lambda client: client.delete_subscription(topic, name))
    show({"topic": topic, "name": name, "deleted": True}, as_json=json, sentence=f"deleted subscription {name!r} of {topic!r}")
