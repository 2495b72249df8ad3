"""What there is to be looked at: the queues and subscriptions that the options of a batch read mean.

subscription given    that of each destination, a topic or a pattern of topics
no subscription       each destination is a queue, or a pattern of the names of queues: those that are there now
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from holdfast.blocking.background import shared_background
from holdfast.client.reading import Extent, ReadSlice
from holdfast.client.subscribing import Match
from holdfast.client.url import FileUrl, parse
from holdfast.errors import NoSuchDestination, WrongKind
from holdfast.event.bounds import Bounds
from holdfast.event.pattern import Pattern
from holdfast.node.observer import Observer
from holdfast.spark.source.connecting import Connection, Holding
from holdfast.spark.source.fetching import fetched

Described = Mapping[str, Any]


class Place(Protocol):
    """A server, or a folder: both hold events."""

    def extents(self, wanted: Wanted, pieces: int) -> dict[Holding, Extent]:
        """Everything that waits, of all that is meant, with where it may be cut."""

    def slices(self, holding: Holding, start: int, end: int, selector: str | None, within: Bounds) -> Iterator[ReadSlice]: ...


def place_at(connection: Connection) -> Place:
    url = parse(connection.url)
    return InFolder(url.folder) if isinstance(url, FileUrl) else AtServer(connection)


class AtServer:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def extents(self, wanted: Wanted, pieces: int) -> dict[Holding, Extent]:
        return shared_background().run(self._extents(wanted, pieces))

    async def _extents(self, wanted: Wanted, pieces: int) -> dict[Holding, Extent]:
        async with self._connection.client() as client:
            holdings = wanted.among(await client.destinations())
            return {
                each: await client.reading(each.destination, each.subscription, match=each.match).extent(pieces=pieces)
                for each in holdings
            }

    def slices(self, holding: Holding, start: int, end: int, selector: str | None, within: Bounds) -> Iterator[ReadSlice]:
        return fetched(self._connection, holding, start, end, selector, within)


class InFolder:
    """A journal that a server may own, or nobody: it is only read."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def extents(self, wanted: Wanted, pieces: int) -> dict[Holding, Extent]:
        with Observer(self._folder) as observer:
            holdings = wanted.among(observer.destinations())
            return {
                each: observer.reading(each.destination, each.subscription, match=each.match).extent(pieces=pieces)
                for each in holdings
            }

    def slices(self, holding: Holding, start: int, end: int, selector: str | None, within: Bounds) -> Iterator[ReadSlice]:
        with Observer(self._folder) as observer:
            reading = observer.reading(holding.destination, holding.subscription, match=holding.match)
            yield from reading.slices(start, end, selector, within)


class Wanted:
    """What the options name, to be found among the destinations that are there."""

    def __init__(self, destinations: Sequence[tuple[str, Match]], subscription: str) -> None:
        self._destinations = destinations
        self._subscription = subscription

    def among(self, there: Sequence[Described]) -> list[Holding]:
        by_name = {each["name"]: each for each in there}
        found = [each for name, match in self._destinations for each in self._holdings(name, match, by_name)]
        return list(dict.fromkeys(found))

    def _holdings(self, name: str, match: Match, there: Mapping[str, Described]) -> list[Holding]:
        if match != "name":
            return self._of_pattern(name, match, there)
        if name not in there:
            near = difflib.get_close_matches(name, there, 1)
            meant = f"; did you mean {near[0]!r}?" if near else "; see `holdfast destination list`"
            raise NoSuchDestination(f"there is no queue or topic {name!r}{meant}", destination=name)
        _check_kind(there[name], self._subscription)
        return [Holding(name, self._subscription)]

    def _of_pattern(self, text: str, match: Match, there: Mapping[str, Described]) -> list[Holding]:
        if self._subscription:
            return [Holding(text, self._subscription, match)]
        pattern = Pattern.regex(text) if match == "regex" else Pattern.glob(text)
        found = [Holding(name) for name, each in there.items() if each["kind"] == "queue" and pattern.matches(name)]
        if not found:
            raise NoSuchDestination(
                f"no queue matches {text!r}; for topics, name the subscription to be read in the option 'subscription'",
                destination=text,
            )
        return found


def _check_kind(there: Described, subscription: str) -> None:
    name, kind = there["name"], there["kind"]
    if kind == "queue" and subscription:
        raise WrongKind(f"{name!r} is a queue, and has no subscriptions; leave the option 'subscription' out", destination=name)
    if kind == "topic" and not subscription:
        raise WrongKind(
            f"{name!r} is a topic, which holds nothing by itself; name one of its subscriptions in the option 'subscription' "
            f"(`holdfast subscription list {name}` shows them)",
            destination=name,
        )
