"""`holdfast destination`: list, create, ensure, configure, show, purge and delete queues and topics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli import help_text, question
from holdfast.cli.options import URL_DEFAULT, DestinationName, Force, IfExists, Json, Timeout, Topic, Update, Url, with_options
from holdfast.cli.question import ask

if TYPE_CHECKING:
    from holdfast.client.client import Client

# Wildcards that match the names of queues and topics alike.
OF_ALL_NAMES = ("*", ">", "**")
COLUMNS = ("name", "kind", "waiting", "in_flight", "receivers", "is_blocked")


def _size(text: str) -> int:
    from holdfast.node.settings import parse_size

    return parse_size(text, "--bytes-max")


# The options of `DestinationSettings`, as the command line has them.
SETTINGS = {
    "redelivery_limit": Annotated[
        int | None,
        typer.Option(
            "--redelivery-limit",
            metavar="N",
            min=0,
            help="Deliver an event again at most so often, after the first time; then it goes to _DMQ. 0 for no limit.",
        ),
    ],
    "redelivery_delay": Annotated[
        float | None,
        typer.Option(
            "--redelivery-delay",
            metavar="SECONDS",
            min=0,
            help="Wait so long before a released event is delivered again; 0 for no delay.",
        ),
    ],
    "redelivery_factor": Annotated[
        int | None, typer.Option("--redelivery-factor", metavar="N", min=1, help="Multiply that delay by this each time.")
    ],
    "redelivery_delay_max": Annotated[
        float | None, typer.Option("--redelivery-delay-max", metavar="SECONDS", min=0, help="The longest delay; 0 for no limit.")
    ],
    "events_max": Annotated[
        int | None,
        typer.Option("--events-max", metavar="N", min=0, help="Block producers while so many events wait; 0 for no limit."),
    ],
    "bytes_max": Annotated[
        int | None,
        typer.Option(
            "--bytes-max",
            metavar="SIZE",
            help="Block producers while so many bytes wait, such as 64M; 0 for no limit.",
            parser=_size,
        ),
    ],
    "low_percent": Annotated[
        int | None,
        typer.Option(
            "--low-percent",
            metavar="N",
            min=1,
            max=100,
            help="Unblock them when it has fallen to so many percent; without it, 80.",
        ),
    ],
    "deduplicate": Annotated[
        str | None,
        typer.Option(
            "--deduplicate",
            metavar="DURATION",
            help="Store events of the same source and id once within this time, such as 10m; 0 for no.",
        ),
    ],
}

group = typer.Typer(
    help="List, create, ensure, configure, show, purge and delete queues and topics.", no_args_is_help=True, rich_markup_mode=None
)


def add_to(app: typer.Typer) -> None:
    app.add_typer(group, name="destination")


@group.command(
    "create",
    **help_text.described(
        "Create a queue or topic.",
        [
            "holdfast destination create invoices --redelivery-limit 5 --redelivery-delay 2 --redelivery-factor 2",
            "holdfast destination create alarms --topic",
            "holdfast destination create payments --deduplicate 10m",
        ],
    ),
)
@with_options(SETTINGS)
def create(
    name: DestinationName,
    topic: Topic = False,
    url: Url = URL_DEFAULT,
    timeout: Timeout = None,
    json: Json = False,
    **settings: Any,
) -> None:
    from holdfast.cli.output import show

    kind = "topic" if topic else "queue"

    async def work(client: Client) -> list[str]:
        await (client.create_topic if topic else client.create_queue)(name, **settings)
        return [] if topic else await _patterns_like(client, name)

    like = ask(url, timeout, work)
    made = {"name": name, "kind": kind, "created": True, **({"like_topics": like} if like else {})}
    show(made, as_json=json, sentence=f"created {kind} {name!r}{_warning(name, like)}")


async def _patterns_like(client: Client, queue: str) -> list[str]:
    """The patterns of subscriptions that a topic of the name of a queue would fill, those of all names apart. The queue is there:
    who may not look at subscriptions is not told."""
    from holdfast.destination.state.subscription import pattern_of
    from holdfast.errors import HoldfastError

    try:
        rows = await client.subscriptions()
    except HoldfastError:
        return []
    found = {(text, row["match"]) for row in rows if (text := row.get("pattern")) is not None and text not in OF_ALL_NAMES}
    return [text for text, match in sorted(found) if pattern_of(text, match).matches(queue)]


def _warning(queue: str, like: list[str]) -> str:
    if not like:
        return ""
    return (
        f"; subscriptions of {', '.join(map(repr, like))} receive from topics, and see nothing of this queue. Was a topic meant? "
        f"Then: holdfast destination delete {queue}; holdfast destination create {queue} --topic"
    )


@group.command(
    "ensure",
    **help_text.described(
        "Create a queue or topic, unless it is there with these settings. Other settings are refused, or changed with --update.",
        [
            "holdfast destination ensure refunds --redelivery-limit 5 --redelivery-delay 2",
            "holdfast destination ensure refunds --redelivery-limit 7 --update",
            "holdfast destination ensure notices --topic",
        ],
    ),
)
@with_options(SETTINGS)
def ensure(
    name: DestinationName,
    topic: Topic = False,
    update: Update = False,
    url: Url = URL_DEFAULT,
    timeout: Timeout = None,
    json: Json = False,
    **settings: Any,
) -> None:
    from holdfast.cli.output import show

    kind = "topic" if topic else "queue"

    def work(client: Client) -> Any:
        return (client.ensure_topic if topic else client.ensure_queue)(name, update=update, **settings)

    ensured = ask(url, timeout, work)
    show({"name": name, "kind": kind, "ensured": ensured}, as_json=json, sentence=f"{kind} {name!r}: {ensured}")


@group.command(
    "configure",
    **help_text.described(
        "Change settings of a queue or topic; those that are not named stay as they are.",
        [
            "holdfast destination configure invoices --events-max 100000 --low-percent 50",
            "holdfast destination configure invoices --redelivery-limit 0 --bytes-max 1G",
        ],
    ),
)
@with_options(SETTINGS)
def configure(
    name: DestinationName, url: Url = URL_DEFAULT, timeout: Timeout = None, json: Json = False, **settings: Any
) -> None:
    from holdfast.cli.output import show

    ask(url, timeout, lambda client: client.configure(name, **settings))
    show({"name": name, "configured": settings}, as_json=json, sentence=f"configured {name!r}")


@group.command(
    "list",
    **help_text.described(
        "List the queues and topics, with the number of waiting events.",
        [
            "holdfast destination list",
            "holdfast destination list --json",
        ],
    ),
)
def list_(url: Url = URL_DEFAULT, timeout: Timeout = None, json: Json = False) -> None:
    from holdfast.cli.output import show_rows

    show_rows(ask(url, timeout, lambda client: client.destinations()), COLUMNS, as_json=json)


@group.command(
    "show",
    **help_text.described(
        "Show one queue or topic: its counts, its settings, its subscriptions.",
        ["holdfast destination show invoices", "holdfast destination show alarms --json"],
    ),
)
def show_(name: DestinationName, url: Url = URL_DEFAULT, timeout: Timeout = None, json: Json = False) -> None:
    from holdfast.cli.output import show

    described = ask(url, timeout, lambda client: client.describe(name))
    show(described if json else {key: _for_people(value) for key, value in described.items()}, as_json=json)


def _for_people(value: Any) -> Any:
    """A list of subscriptions as text: the name of each, its pattern, and how many events wait."""
    if not isinstance(value, list):
        return value
    named = [f"{each['name']} of {each['pattern']}" if each.get("pattern") else each["name"] for each in value]
    return ", ".join(f"{name} ({each['waiting']:,} waiting)" for name, each in zip(named, value, strict=True)) or "none"


@group.command(
    "purge",
    **help_text.described(
        "Throw away everything that waits in a queue, what recipients hold included. It is gone for good, and the queue stays.",
        ["holdfast destination purge invoices", "holdfast destination purge invoices --json"],
    ),
)
def purge(name: DestinationName, url: Url = URL_DEFAULT, timeout: Timeout = None, json: Json = False) -> None:
    from holdfast.cli.output import counted, show

    purged = ask(url, timeout, lambda client: client.purge(name))
    show({"name": name, "purged": purged}, as_json=json, sentence=f"threw {counted(purged)} of {name!r} away")


@group.command(
    "delete",
    **help_text.described(
        "Delete a queue or topic. While events wait in it, that is refused; with --force they go to _DMQ.",
        ["holdfast destination delete invoices", "holdfast destination delete orders --force --if-exists"],
    ),
)
def delete(
    name: DestinationName,
    force: Force = False,
    if_exists: IfExists = False,
    url: Url = URL_DEFAULT,
    timeout: Timeout = None,
    json: Json = False,
) -> None:
    question.delete(
        url,
        timeout,
        lambda client: client.delete(name, force=force, missing_ok=if_exists),
        repr(name),
        {"name": name},
        as_json=json,
    )


@group.command(
    "empty",
    **help_text.described(
        "Give up the requests that wait in _ADMIN, the one queue that only the server receives from: they are not carried out, "
        "and go to _DMQ.",
        ["holdfast destination empty _ADMIN"],
    ),
)
def empty(name: DestinationName, url: Url = URL_DEFAULT, timeout: Timeout = None, json: Json = False) -> None:
    from holdfast.cli.output import counted, show

    emptied = ask(url, timeout, lambda client: client.empty(name))
    show({"name": name, "emptied": emptied}, as_json=json, sentence=f"gave up {counted(emptied)} of {name!r}")
