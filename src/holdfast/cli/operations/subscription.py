"""`holdfast subscription`: list, create, ensure and delete durable subscriptions of topics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli import help_text, question
from holdfast.cli.options import SEES, URL_DEFAULT, Force, IfExists, Json, Timeout, Update, Url
from holdfast.cli.question import ask

if TYPE_CHECKING:
    from holdfast.client.receiving.receive_options import SubscriptionTerms

ALL = ("topic",)  # the first column of a list of all
COLUMNS = ("name", "is_durable", "is_shared", "no_local", "selector", "pattern", "waiting", "receivers")

TopicName = Annotated[str, typer.Argument(metavar="TOPIC", help="The name of a topic, or a wildcard such as 'alerts.*'.")]
Selector = Annotated[
    str | None,
    typer.Option("--selector", metavar="CONDITION", help=f'Keep only events that match, such as "amount > 100". {SEES}'),
]
Shared = Annotated[bool, typer.Option("--shared", help="Let several receivers share it; each event goes to one of them.")]
Replace = Annotated[
    bool, typer.Option("--replace", help="Replace a subscription of other terms; events that wait in it are lost.")
]
NoLocal = Annotated[bool, typer.Option("--no-local", help="Leave out events that the receiving client itself sends.")]
Like = Annotated[
    str | None,
    typer.Option(
        "--like", metavar="OTHER", help="Take the terms of this subscription of the topic, and all that waits in it now."
    ),
]
RemoveAfterEvents = Annotated[
    int | None,
    typer.Option("--remove-after-events", metavar="N", min=0, help="Remove it when more than so many events wait. 0: never."),
]
RemoveAfterBytes = Annotated[
    int | None,
    typer.Option("--remove-after-bytes", metavar="BYTES", min=0, help="Remove it when more than so many bytes wait. 0: never."),
]
RemoveAfter = Annotated[
    str | None,
    typer.Option(
        "--remove-after", metavar="DURATION", help="Remove it when an event has waited longer than this, such as 1h. 0: never."
    ),
]
SubscriptionName = Annotated[str, typer.Argument(metavar="NAME", help="The name of a subscription.")]

group = typer.Typer(
    help="List, create, ensure and delete durable subscriptions of topics.", no_args_is_help=True, rich_markup_mode=None
)


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
            "holdfast subscription create prices archive-2 --like archive",
            "holdfast subscription create prices display --remove-after-events 10000 --remove-after 1h",
        ],
    ),
)
def create(
    topic: TopicName,
    name: SubscriptionName,
    selector: Selector = None,
    shared: Shared = False,
    no_local: NoLocal = False,
    replace: Replace = False,
    like: Like = None,
    remove_after_events: RemoveAfterEvents = None,
    remove_after_bytes: RemoveAfterBytes = None,
    remove_after: RemoveAfter = None,
    url: Url = URL_DEFAULT,
    timeout: Timeout = None,
    json: Json = False,
) -> None:
    from holdfast.cli.output import show

    terms = _given(selector, shared, no_local, replace, remove_after_events, remove_after_bytes, remove_after)
    ask(url, timeout, lambda client: client.create_subscription(topic, name, like=like, **terms))
    show({"topic": topic, "name": name, "created": True}, as_json=json, sentence=f"created subscription {name!r} of {topic!r}")


def _given(
    selector: str | None, shared: bool, no_local: bool, replace: bool, events: int | None, bytes: int | None, age: str | None
) -> SubscriptionTerms:
    """The terms that were given, and no others."""
    terms: SubscriptionTerms = {"replace": replace}
    if events is not None:
        terms["remove_after_events"] = events
    if bytes is not None:
        terms["remove_after_bytes"] = bytes
    if age is not None:
        terms["remove_after"] = age
    if selector is not None:
        terms["selector"] = selector
    if shared:
        terms["shared"] = True
    if no_local:
        terms["no_local"] = True
    return terms


@group.command(
    "ensure",
    **help_text.described(
        "Create a durable subscription, unless it is there on these terms. Other terms are refused, or changed with --update.",
        [
            "holdfast subscription ensure quotes archive",
            'holdfast subscription ensure quotes large --selector "amount > 100" --shared',
        ],
    ),
)
def ensure(
    topic: TopicName,
    name: SubscriptionName,
    selector: Selector = None,
    shared: Shared = False,
    no_local: NoLocal = False,
    update: Update = False,
    replace: Replace = False,
    remove_after_events: RemoveAfterEvents = None,
    remove_after_bytes: RemoveAfterBytes = None,
    remove_after: RemoveAfter = None,
    url: Url = URL_DEFAULT,
    timeout: Timeout = None,
    json: Json = False,
) -> None:
    from holdfast.cli.output import show

    terms = _given(selector, shared, no_local, replace, remove_after_events, remove_after_bytes, remove_after)
    ensured = ask(url, timeout, lambda client: client.ensure_subscription(topic, name, update=update, **terms))
    said = {"topic": topic, "name": name, "ensured": ensured}
    show(said, as_json=json, sentence=f"subscription {name!r} of {topic!r}: {ensured}")


@group.command(
    "list",
    **help_text.described(
        "List the subscriptions of a topic, or of all topics and patterns, with the number of waiting events.",
        [
            "holdfast subscription list",
            "holdfast subscription list prices",
            "holdfast subscription list prices --json",
        ],
    ),
)
def list_(
    topic: Annotated[str | None, typer.Argument(metavar="[TOPIC]", help="A topic or wildcard; without it, all.")] = None,
    url: Url = URL_DEFAULT,
    timeout: Timeout = None,
    json: Json = False,
) -> None:
    from holdfast.cli.output import show_rows

    rows = ask(url, timeout, lambda client: client.subscriptions(topic))
    show_rows(rows, COLUMNS if topic is not None else (*ALL, *COLUMNS), as_json=json)


@group.command(
    "delete",
    **help_text.described(
        "Delete a durable subscription. While events wait in it, that is refused; with --force they are lost.",
        ["holdfast subscription delete prices archive --force"],
    ),
)
def delete(
    topic: TopicName,
    name: SubscriptionName,
    force: Force = False,
    if_exists: IfExists = False,
    url: Url = URL_DEFAULT,
    timeout: Timeout = None,
    json: Json = False,
) -> None:
    question.delete(
        url,
        timeout,
        lambda client: client.delete_subscription(topic, name, force=force, missing_ok=if_exists),
        f"subscription {name!r} of {topic!r}",
        {"topic": topic, "name": name},
        as_json=json,
    )
