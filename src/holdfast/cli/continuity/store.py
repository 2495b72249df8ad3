"""`holdfast store`: create, list and delete file stores, and see how their places are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli import help_text
from holdfast.cli.continuity import store_files, store_programs
from holdfast.cli.continuity.store_programs import PlaceName, StoreName
from holdfast.cli.options import URL_DEFAULT, IfExists, Json, Timeout, Url
from holdfast.cli.question import ask

if TYPE_CHECKING:
    from holdfast.client.client import Client

Places = Annotated[
    list[str], typer.Option("--place", metavar="PLACE", help="A place that the store begins with; say two or more of them.")
]
PlacesMin = Annotated[
    int,
    typer.Option(
        "--places-min",
        metavar="N",
        min=1,
        help="Take writes only while so many places are current; large bytes go to so many first.",
    ),
]
SmallBytes = Annotated[
    int,
    typer.Option(
        "--small-bytes", metavar="N", min=0, help="Files up to this size go through the channel, larger ones beside it."
    ),
]
LooseSeconds = Annotated[
    float, typer.Option("--loose-seconds", metavar="SECONDS", min=1, help="Keep bytes that no name stands for so long.")
]
LagEvents = Annotated[
    int,
    typer.Option(
        "--lag-events", metavar="N", min=0, help="Drop a place that is away and more than so many writes behind; 0: no limit."
    ),
]
LagBytes = Annotated[str, typer.Option("--lag-bytes", metavar="SIZE", help="The same in bytes of writes; 0: no limit.")]
LagSeconds = Annotated[float, typer.Option("--lag-seconds", metavar="SECONDS", min=0, help="The same in seconds; 0: no limit.")]
Force = Annotated[bool, typer.Option("--force", help="Delete it although writes wait in it.")]

STATUS_COLUMNS = ("place", "site", "kind", "state", "number", "lag", "files", "lacking", "loose", "address")

group = typer.Typer(
    help="Keep files at several places: create file stores, run their places and fronts, put and get files.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


def add_to(app: typer.Typer) -> None:
    store_programs.add_to(group)
    store_files.add_to(group)
    app.add_typer(group, name="store")


@group.command(
    "create",
    **help_text.described(
        "Create a file store: files that are kept at several places, all of which get every write.",
        [
            "holdfast store create files --place a --place b",
            "holdfast store create archive --place north --place south --place east --places-min 2 --small-bytes 16384",
            "holdfast store create scratch --place here --place there --places-min 1",
        ],
    ),
)
def create(
    name: StoreName,
    place: Places,
    places_min: PlacesMin = 2,
    small_bytes: SmallBytes = 64 << 10,
    loose_seconds: LooseSeconds = 3600.0,
    lag_events: LagEvents = 100_000,
    lag_bytes: LagBytes = "1G",
    lag_seconds: LagSeconds = 3600.0,
    url: Url = URL_DEFAULT,
    timeout: Timeout = None,
    json: Json = False,
) -> None:
    from holdfast.cli.output import show
    from holdfast.continuity.domain import LagLimit
    from holdfast.continuity.storage import definition as register
    from holdfast.node.settings import parse_size

    lag_max = LagLimit(lag_events, parse_size(lag_bytes, "--lag-bytes"), lag_seconds)
    made = register.Definition(name, tuple(place), places_min, small_bytes, loose_seconds, lag_max)
    ask(url, timeout, lambda client: register.create(client, made))
    show({"store": name, "created": True}, as_json=json, sentence=f"created file store {name!r} with places {', '.join(place)}")


@group.command("list", **help_text.described("List the file stores.", ["holdfast store list", "holdfast store list --json"]))
def list_(url: Url = URL_DEFAULT, timeout: Timeout = None, json: Json = False) -> None:
    from holdfast.cli.output import show_rows
    from holdfast.continuity.storage import definition as register

    show_rows([{"store": name} for name in ask(url, timeout, register.names)], ("store",), as_json=json)


@group.command(
    "status",
    **help_text.described(
        "Show how a file store is: whether it takes writes, its places, who lags, and what each lacks.",
        ["holdfast store status files", "holdfast store status files --json"],
    ),
)
def status(name: StoreName, url: Url = URL_DEFAULT, timeout: Timeout = None, json: Json = False) -> None:
    from holdfast.cli.output import show, show_rows
    from holdfast.continuity.storage import store_status

    told = ask(url, timeout, lambda client: store_status.ask(client, name))
    if json:
        show(told, as_json=True)
        return
    show({key: value for key, value in told.items() if key != "places"}, as_json=False)
    show_rows(told["places"], STATUS_COLUMNS, as_json=False)


@group.command(
    "drop",
    **help_text.described(
        "Drop a place: no writes wait for it any more. If it comes back, it copies from another place.",
        ["holdfast store drop archive east", "holdfast store drop archive east --if-exists --json"],
        changed={1: "refused: there is no such store, or no such place and --if-exists was not said"},
    ),
)
def drop(
    name: StoreName,
    place: PlaceName,
    if_exists: IfExists = False,
    url: Url = URL_DEFAULT,
    timeout: Timeout = None,
    json: Json = False,
) -> None:
    from holdfast.cli.output import show
    from holdfast.continuity.errors import NoSuchPlace
    from holdfast.continuity.storage import definition as register

    async def work(client: Client) -> bool:
        return await register.drop_place(client, await register.read(client, name), place)

    was_there = ask(url, timeout, work)
    if not was_there and not if_exists:
        raise NoSuchPlace(f"file store {name!r} has no place {place!r}; `holdfast store status {name}` lists its places")
    sentence = f"dropped place {place!r} of {name!r}" if was_there else f"there was no place {place!r} of {name!r}"
    show({"store": name, "place": place, "dropped": was_there}, as_json=json, sentence=sentence)


@group.command(
    "delete",
    **help_text.described(
        "Delete a file store. The bytes at its places stay where they are.",
        ["holdfast store delete archive", "holdfast store delete scratch --force"],
        changed={1: "refused: there is no such store, or writes wait in it and --force was not said"},
    ),
)
def delete(name: StoreName, force: Force = False, url: Url = URL_DEFAULT, timeout: Timeout = None, json: Json = False) -> None:
    from holdfast.cli.output import show
    from holdfast.continuity.storage import definition as register

    ask(url, timeout, lambda client: register.delete(client, name, force=force))
    show({"store": name, "deleted": True}, as_json=json, sentence=f"deleted file store {name!r}")
