"""The input of a batch read: a server or a folder, and which of its queues and subscriptions the options name.

subscription given    that of each destination, a topic or a pattern of topics
no subscription       each destination is a queue, or a pattern of the names of queues: those that are there now
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from holdfast.client.reading.place_reader import Extent, ReadSlice
from holdfast.client.receiving.receive_options import Match
from holdfast.client.url import FileUrl, parse
from holdfast.errors import NoSuchDestination, WrongKind
from holdfast.event.extent import Bounds
from holdfast.event.pattern import Pattern
from holdfast.node.background import shared_background
from holdfast.node.observer import Observer
from holdfast.spark.server_address import ServerAddress
from holdfast.spark.source.fetcher import fetched
from holdfast.spark.source.read_target import ReadTarget, channels_of, reading_of

Described = Mapping[str, Any]


class BatchInput(Protocol):
    """A server, or a folder with a journal."""

    def extents(self, wanted: TargetNames, pieces: int) -> dict[ReadTarget, Extent]:
        """How far each target reaches, and where it may be cut."""

    def slices(self, target: ReadTarget, start: int, end: int, selector: str | None, within: Bounds) -> Iterator[ReadSlice]: ...


def batch_input_at(address: ServerAddress) -> BatchInput:
    url = parse(address.url)
    return FolderInput(url.folder) if isinstance(url, FileUrl) else ServerInput(address)


class ServerInput:
    def __init__(self, address: ServerAddress) -> None:
        self._address = address

    def extents(self, wanted: TargetNames, pieces: int) -> dict[ReadTarget, Extent]:
        return shared_background().run(self._extents(wanted, pieces))

    async def _extents(self, wanted: TargetNames, pieces: int) -> dict[ReadTarget, Extent]:
        async with self._address.client() as client:
            targets = wanted.among(await client.destinations())
            every = [each._replace(channel=channel) for each in targets for channel in channels_of(client, each)]
            return {each: await reading_of(client, each).extent(pieces=pieces) for each in every}

    def slices(self, target: ReadTarget, start: int, end: int, selector: str | None, within: Bounds) -> Iterator[ReadSlice]:
        return fetched(self._address, target, start, end, selector, within)


class FolderInput:
    """A journal that a server may own, or nobody: it is only read."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def extents(self, wanted: TargetNames, pieces: int) -> dict[ReadTarget, Extent]:
        with Observer(self._folder) as observer:
            targets = wanted.among(observer.destinations())
            return {
                each: observer.reading(each.destination, each.subscription, match=each.match).extent(pieces=pieces)
                for each in targets
            }

    def slices(self, target: ReadTarget, start: int, end: int, selector: str | None, within: Bounds) -> Iterator[ReadSlice]:
        with Observer(self._folder) as observer:
            reading = observer.reading(target.destination, target.subscription, match=target.match)
            yield from reading.slices(start, end, selector, within)


class TargetNames:
    """The destinations that the options name, to be looked up among those that exist."""

    def __init__(self, destinations: Sequence[tuple[str, Match]], subscription: str) -> None:
        self._destinations = destinations
        self._subscription = subscription

    def among(self, there: Sequence[Described]) -> list[ReadTarget]:
        by_name = {each["name"]: each for each in there}
        found = [each for name, match in self._destinations for each in self._targets_of(name, match, by_name)]
        return list(dict.fromkeys(found))

    def _targets_of(self, name: str, match: Match, there: Mapping[str, Described]) -> list[ReadTarget]:
        if match != "name":
            return self._of_pattern(name, match, there)
        if name not in there:
            near = difflib.get_close_matches(name, there, 1)
            meant = f"; did you mean {near[0]!r}?" if near else "; see `holdfast destination list`"
            raise NoSuchDestination(f"there is no queue or topic {name!r}{meant}", destination=name)
        _check_kind(there[name], self._subscription)
        return [ReadTarget(name, self._subscription)]

    def _of_pattern(self, text: str, match: Match, there: Mapping[str, Described]) -> list[ReadTarget]:
        if self._subscription:
            return [ReadTarget(text, self._subscription, match)]
        pattern = Pattern.regex(text) if match == "regex" else Pattern.glob(text)
        found = [ReadTarget(name) for name, each in there.items() if each["kind"] == "queue" and pattern.matches(name)]
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
