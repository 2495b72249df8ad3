"""The owner of a stream's subscriptions: it asks how far a batch may go, and confirms.

    opened on the first question, and again after a lost link: connect, one reading for each destination, own each
    every question may be asked again without harm, and is, until `timeout` seconds have passed without a server

A server that is stopped and started while a query runs is waited for. What waiting cannot change (a wrong password, a queue where
a topic is needed, another owner) is raised at once, or almost: an owner that was just killed may need a moment to be noticed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AsyncExitStack
from typing import Self, TypeVar

from holdfast.client.client import Client
from holdfast.client.reading.place_reader import Extent, Reading
from holdfast.errors import (
    Closed,
    Detached,
    HoldfastError,
    NoSuchDestination,
    NoSuchSubscription,
    OutcomeUnknown,
    SubscriptionInUse,
    Unavailable,
    Unreachable,
    WrongKind,
)
from holdfast.event.extent import Bounds
from holdfast.spark.server_address import ServerAddress
from holdfast.spark.source.offsets import is_of_restored
from holdfast.spark.source.read_target import ReadTarget, channels_of, reading_of
from holdfast.spark.source.starting_place import starting_place

Answer = TypeVar("Answer")
Readings = Mapping[str, Reading]
log = logging.getLogger(__name__)

# A killed driver is noticed by its server, and its Python process by the end of its pipe, in about a second; a machine without
# power or network, after three heartbeats.
OWNER_PATIENCE_S = 20.0
RESTORED = (
    "the server was restored from a backup since, so its places mean other events, and what was confirmed after the backup waits "
    "again"
)
BACK_OFF_MIN_S = 0.05
BACK_OFF_MAX_S = 1.0


class SubscriptionGone(Exception):
    """A subscription of this query was deleted, or its server restored from a backup, while the query ran; it may be there again,
    as another one."""

    def __init__(self, destination: str, reason: str = "it was deleted while the query ran") -> None:
        super().__init__(destination)
        self.destination = destination
        self.reason = reason

    @classmethod
    def instead(cls, destination: str, known: str, found: str) -> Self:
        """Another subscription has its place."""
        return cls(destination, RESTORED) if is_of_restored(known, found) else cls(destination)


class Allowance:
    """How much a batch may hold, both at once; None: no limit."""

    def __init__(self, events: int | None = None, bytes: int | None = None) -> None:
        self.events = events
        self.bytes = bytes

    def share(self, of: int) -> Allowance:
        """An equal part for each of so many; never nothing, or one of them would stand still."""
        return Allowance(*(None if limit is None else max(1, limit // of) for limit in (self.events, self.bytes)))

    def left(self, used: list[Extent]) -> Allowance:
        events = None if self.events is None else max(0, self.events - sum(each.events for each in used))
        return Allowance(events, None if self.bytes is None else max(0, self.bytes - sum(each.bytes for each in used)))

    def is_enough_for(self, readings: int) -> bool:
        return all(limit is None or limit >= readings for limit in (self.events, self.bytes))

    def beside(self, extent: Extent) -> Allowance:
        """This much more than an extent that was found already."""
        return Allowance(
            None if self.events is None else self.events + extent.events,
            None if self.bytes is None else self.bytes + extent.bytes,
        )


class Owner:
    """The subscriptions of one query. Used from one loop; nothing is opened before the first question."""

    def __init__(self, address: ServerAddress, targets: Iterable[ReadTarget], selector: str | None = None) -> None:
        """With a `selector`, subscriptions are made with it; one that is there with another is refused."""
        self._address = address
        self._targets = list(targets)
        self._selector = selector
        self._open: AsyncExitStack | None = None
        self._readings: dict[str, Reading] = {}
        self._identities: dict[str, str] = {}  # of the subscriptions that were first opened

    async def extents(self, starts: Mapping[str, int | None], allowance: Allowance, pieces: int) -> dict[str, Extent]:
        """How far a batch that begins at `starts` goes; a destination whose start is None begins with what waits in it."""
        return await self._patiently(lambda readings: _extents(readings, starts, allowance, pieces))

    async def more(self, places: Mapping[str, int], timeout: float) -> None:
        """Wait until something is placed at or after one of these places; `timeout` seconds at most."""
        await self._patiently(lambda readings: _more(readings, places, timeout))

    async def confirm(self, places: Mapping[str, int]) -> None:
        """Everything before these places is finished. Cumulative: to say it again, or late, does no harm."""
        await self._patiently(lambda readings: self._confirm(readings, places))

    async def _confirm(self, readings: Readings, places: Mapping[str, int]) -> None:
        for name, place in places.items():
            await readings[name].confirm_up_to(0)  # confirms nothing, and owns it again after a lost link: nobody deletes it then
            await self._check_is_known(name, readings[name])
            await readings[name].confirm_up_to(place)

    async def starting_places(self, within: Bounds) -> dict[str, int]:
        """Where the first event that waits and lies within these bounds stands, in each subscription."""
        return await self._patiently(lambda readings: _starting_places(readings, within))

    async def forget(self) -> None:
        """Open the subscriptions anew with the next question, whichever they are then."""
        await self._close_quietly()
        self._identities = {}

    async def close(self) -> None:
        opened, self._open, self._readings = self._open, None, {}
        if opened is not None:
            await opened.aclose()

    async def _patiently(self, ask: Callable[[Readings], Awaitable[Answer]]) -> Answer:
        """Ask until there is an answer. A server that is away is waited for. SubscriptionGone if one was deleted."""
        loop = asyncio.get_running_loop()
        began, pause = loop.time(), BACK_OFF_MIN_S
        in_use_since: float | None = None
        while True:
            try:
                if self._open is None:
                    await self._begin()
                return await ask(self._readings)
            except (NoSuchDestination, NoSuchSubscription) as problem:
                named = [name for name, each in self._readings.items() if repr(each.destination) in str(problem)]
                gone = named or list(self._readings) or [""]
                raise SubscriptionGone(gone[0]) from problem
            except (Unavailable, OutcomeUnknown, Detached, Closed, SubscriptionInUse) as problem:
                await self._close_quietly()
                if isinstance(problem, SubscriptionInUse):
                    in_use_since = in_use_since or loop.time()
                self._check_patience(problem, loop.time() - (began if in_use_since is None else in_use_since))
                log.info("%s; trying again", problem)
            await asyncio.sleep(pause)
            pause = min(2 * pause, BACK_OFF_MAX_S)

    def _check_patience(self, problem: HoldfastError, waited_s: float) -> None:
        if isinstance(problem, SubscriptionInUse):
            if waited_s >= OWNER_PATIENCE_S:
                raise SubscriptionInUse(
                    f"{problem}. A stream has its subscription for itself: stop whoever uses it, or name another one in the "
                    "option 'subscription'",
                    **problem.fields,
                ) from problem
        elif waited_s >= self._address.timeout:
            raise Unreachable(
                f"no answer from {self._address.shown_url} for {waited_s:.0f} s: {problem}; start the server, or give the "
                "option 'timeout' more seconds; the query can then be started again, nothing is lost",
            ) from problem

    async def _begin(self) -> None:
        async with AsyncExitStack() as stack:
            client = await stack.enter_async_context(self._address.client())
            readings = {}
            for each in self._targets:
                await _check_is_topic(client, each)
                for channel in channels_of(client, each):
                    reading = reading_of(client, each._replace(channel=channel), self._selector)
                    await stack.enter_async_context(reading.owner())
                    key = each._replace(channel=reading.channel).key
                    readings[key] = reading
                    await self._check_is_known(key, reading)
            self._readings = readings
            self._open = stack.pop_all()

    async def _check_is_known(self, key: str, reading: Reading) -> None:
        """Refuse to go on with a subscription that was made again: places of the old one would confirm events of the new one.

        A subscription that is not there is created when it is opened, also after a lost link.
        """
        identity = (await reading.extent(events_max=1)).identity
        known = self._identities.setdefault(key, identity)
        if known != identity:
            raise SubscriptionGone.instead(key, known, identity)

    async def _close_quietly(self) -> None:
        """Close links that may be lost. An error does not matter: the server notices the end of a link."""
        try:
            await self.close()
        except HoldfastError as problem:
            log.info("left behind: %s", problem)


async def _check_is_topic(client: Client, target: ReadTarget) -> None:
    """A topic that is not there yet is made by subscribing to it."""
    if target.match != "name":
        return
    name = target.destination
    try:
        kind = (await client.describe(name))["kind"]
    except NoSuchDestination:
        return
    if kind == "queue":
        raise WrongKind(
            f"{name!r} is a queue: each of its events goes to one recipient, which may take it before a batch is written, so a "
            "stream cannot read it. Send to a topic, which keeps every event for every subscription; or look at what waits in "
            f"the queue with spark.read.format('holdfast').option('destinations', {name!r})",
            destination=name,
        )


async def _extents(readings: Readings, starts: Mapping[str, int | None], allowance: Allowance, pieces: int) -> dict[str, Extent]:
    """Each destination gets an equal share; what some leave is shared by those that have more."""
    share = allowance.share(len(readings))
    found = {name: await _extent(readings[name], starts.get(name), share, pieces) for name in readings}
    longer = [name for name, extent in found.items() if extent.left]
    rest = allowance.left(list(found.values()))
    if len(readings) > 1 and longer and rest.is_enough_for(len(longer)):
        share = rest.share(len(longer))
        for name in longer:
            found[name] = await _extent(readings[name], starts.get(name), share.beside(found[name]), pieces)
    return found


async def _extent(reading: Reading, start: int | None, allowance: Allowance, pieces: int) -> Extent:
    return await reading.extent(start=start, events_max=allowance.events, bytes_max=allowance.bytes, pieces=pieces)


async def _more(readings: Readings, places: Mapping[str, int], timeout: float) -> None:
    waiting = [asyncio.ensure_future(readings[name].more(place, timeout)) for name, place in places.items()]
    try:
        done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for each in done:
            each.result()
    finally:
        for each in waiting:
            each.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


async def _starting_places(readings: Readings, within: Bounds) -> dict[str, int]:
    return {name: await starting_place(reading, within) for name, reading in readings.items()}
