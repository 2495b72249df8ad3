"""The definition of a file store, and the register of stores: as domains have it, the newest event of a queue that nobody takes.

store.files.definition    queue    │ definition 1, confirmed │ definition 2 │
store.files.writes        topic    subscription place.NAME for each place
store.files.mark.a        queue    what place a has made durable: the newest event counts
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from holdfast.client.client import Client
from holdfast.continuity.domain import LagLimit, checked_name
from holdfast.continuity.errors import FileStoreExists, NoSuchFileStore
from holdfast.errors import BadSetting, DestinationExists, NoSuchDestination

PREFIX = "store."
# The subscriptions of places begin with it.
PLACES = "place."
TYPE = "holdfast.store.definition"
MARK = "holdfast.store.mark"
_SUFFIX = ".definition"
# An event carries at most so many bytes of a file: an event of 1 MB is large.
SMALL_BYTES_MAX = 512 << 10


class Definition(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What must be alike at all fronts and places of a file store.

    places          the places that the store begins with
    places_min      writes are taken only while so many places are current; large bytes are staged at so many
    small_bytes     up to so many bytes go through the channel
    loose_seconds   bytes that no name stands for are kept so long
    lag_max         a place that is away and lags further is dropped, if `places_min` others are current
    """

    name: str
    places: tuple[str, ...]
    places_min: Annotated[int, msgspec.Meta(ge=1)] = 2
    small_bytes: Annotated[int, msgspec.Meta(ge=0, le=SMALL_BYTES_MAX)] = 64 << 10
    loose_seconds: Annotated[float, msgspec.Meta(gt=0)] = 3600.0
    lag_max: LagLimit = LagLimit()

    @property
    def definition(self) -> str:
        return f"{PREFIX}{self.name}{_SUFFIX}"

    @property
    def writes(self) -> str:
        return f"{PREFIX}{self.name}.writes"

    @property
    def roll(self) -> str:
        """The name under which its roll is called."""
        return f"store.{self.name}"

    def mark(self, place: str) -> str:
        return f"{PREFIX}{self.name}.mark.{checked_name(place, 'place')}"


def subscription_of(place: str) -> str:
    """The subscription in which the writes of a place wait."""
    return f"{PLACES}{checked_name(place, 'place')}"


def checked(definition: Definition) -> Definition:
    """The definition, if it makes sense; BadSetting names the setting and says what to write."""
    checked_name(definition.name, "file store")
    for each in definition.places:
        checked_name(each, "place")
    if len(set(definition.places)) < max(1, definition.places_min):
        raise BadSetting(
            f"{len(set(definition.places))} places are named, and writes need {definition.places_min}; name more, or let "
            "places_min be less",
            setting="places",
        )
    try:
        return msgspec.convert(msgspec.to_builtins(definition), Definition)
    except msgspec.ValidationError as problem:
        raise BadSetting(f"file store {definition.name!r}: {problem}", setting="definition") from problem


async def create(client: Client, definition: Definition) -> None:
    """Create a store: its destinations, the subscriptions and marks of its first places, and at last its definition."""
    checked(definition)
    try:
        await client.create_queue(definition.definition)
    except DestinationExists:
        if await _newest(client, definition.definition) is not None:
            raise FileStoreExists(
                f"file store {definition.name!r} is there already; delete it first, or choose another name"
            ) from None
    await client.ensure_topic(definition.writes)
    for place in definition.places:
        await client.ensure_subscription(definition.writes, subscription_of(place))
        await client.ensure_queue(definition.mark(place))
        await tell_mark(client, definition, place, 0)
    await client.queue(definition.definition).send(msgspec.json.encode(definition), type=TYPE)


async def read(client: Client, name: str) -> Definition:
    """The definition of a store. NoSuchFileStore if there is none."""
    try:
        found = await _newest(client, f"{PREFIX}{checked_name(name, 'file store')}{_SUFFIX}")
    except NoSuchDestination:
        found = None
    if found is None:
        raise NoSuchFileStore(
            f"there is no file store {name!r}; create it with `holdfast store create {name} --place a --place b`"
        )
    return msgspec.json.decode(found, type=Definition)


async def names(client: Client) -> list[str]:
    """The names of all stores, in order."""
    found = [each["name"] for each in await client.destinations()]
    return sorted(name[len(PREFIX) : -len(_SUFFIX)] for name in found if name.startswith(PREFIX) and name.endswith(_SUFFIX))


async def delete(client: Client, name: str, *, force: bool = False) -> None:
    """Delete a store with the writes that wait in it. Refused while writes wait, unless `force` is said. Places keep their
    bytes."""
    definition = await read(client, name)
    await client.delete(definition.writes, force=force, missing_ok=True)
    for place in await places(client, definition):
        await client.delete(definition.mark(place), force=True, missing_ok=True)
    await client.delete(definition.definition, force=True, missing_ok=True)


async def places(client: Client, definition: Definition) -> list[str]:
    """The names of all places that the store has now: those that have a mark."""
    prefix = f"{PREFIX}{definition.name}.mark."
    return sorted(each["name"][len(prefix) :] for each in await client.destinations() if each["name"].startswith(prefix))


async def drop_place(client: Client, definition: Definition, place: str) -> bool:
    """Forget a place: no writes wait for it any more. If it comes back it is a new one, and copies. Returns whether it was
    there."""
    was_there = await client.delete_subscription(definition.writes, subscription_of(place), force=True, missing_ok=True)
    return await client.delete(definition.mark(place), force=True, missing_ok=True) or was_there


# --- marks -------------------------------------------------------------------------------------------------------------


async def tell_mark(client: Client, definition: Definition, place: str, number: int) -> None:
    """Say that a place has made everything up to this number durable."""
    await client.queue(definition.mark(place)).send({"number": number}, type=MARK)


async def mark_told(client: Client, definition: Definition, place: str) -> int | None:
    """The greatest mark that was told; None if there is none."""
    numbers = []
    try:
        async with client.queue(definition.mark(place)).browse() as browser:
            async for event in browser:
                numbers.append(int(event.data["number"]))
    except NoSuchDestination:
        return None
    return max(numbers, default=None)


async def _newest(client: Client, queue: str) -> bytes | None:
    newest = None
    async with client.queue(queue).browse() as browser:
        async for event in browser:
            newest = bytes(event.body)
    return newest
