"""The status of a file store: what its places say at a roll call, beside those that should be there and say nothing.

safe       more places are current than writes need: any one may fail
least      as many as writes need: one more failure stops writes
reading    fewer: writes get 503, reads go on
stopped    none

A place of which nothing is heard is silent; dropped if it lagged so far that its writes are not kept for it any more.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from holdfast.client.client import Client
from holdfast.continuity import roll_call
from holdfast.continuity.storage import definition as register
from holdfast.continuity.storage.definition import PLACES


async def ask(client: Client, name: str) -> dict[str, Any]:
    """The status, from everyone who answers within a second."""
    definition = await register.read(client, name)
    names = await register.places(client, definition)
    told = {each["name"]: each for each in await roll_call.ask(client, definition.roll) if each.get("part") == "place"}
    subscribed = {each["name"].removeprefix(PLACES) for each in await client.subscriptions(definition.writes)}
    return summary(name, definition.places_min, names, told, dropped={*names} - subscribed)


def summary(
    name: str, places_min: int, names: list[str], told: dict[str, dict[str, Any]], dropped: Collection[str] = ()
) -> dict[str, Any]:
    """`dropped`: places for which nothing is kept any more, because they lagged too far."""
    places = [
        _place(each, told.get(each) or {"state": "dropped" if each in dropped else "silent"}) for each in sorted({*names, *told})
    ]
    current = sum(each["state"] == "current" for each in places)
    return {
        "store": name,
        "level": level(current, places_min),
        "current": current,
        "places_min": places_min,
        "number": max((each["number"] for each in places), default=0),
        "places": places,
    }


def level(current: int, places_min: int) -> str:
    if not current:
        return "stopped"
    return "reading" if current < places_min else "least" if current == places_min else "safe"


def _place(name: str, told: dict[str, Any]) -> dict[str, Any]:
    empty = {
        "site": "",
        "kind": "",
        "state": "silent",
        "number": 0,
        "lag": 0,
        "files": 0,
        "lacking": 0,
        "loose": 0,
        "address": "",
    }
    return {"place": name, **{each: told.get(each, value) for each, value in empty.items()}}
