"""A storage place: receives the writes of a file store, applies each in order, makes it durable, confirms, and answers questions.

topic ─▶ judged: done, or next ─▶ bytes: carried, staged here, or fetched by digest ─▶ catalog: entries, outcome, number
      ─▶ whoever waits for the outcome ─▶ lazily: mark told, events confirmed

waiting    its disk is stale, and no other place is current: it answers nothing
joining    it has not applied everything that was written before it said that it is there
filling    names are complete, bytes are being fetched
current    it answers, while its last contact with Holdfast is fresh
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import ssl
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from holdfast.client.client import Client, connect
from holdfast.client.receiving.incoming import Incoming
from holdfast.client.receiving.received_event import ReceivedEvent
from holdfast.continuity import roll_call
from holdfast.continuity.domain import checked_name
from holdfast.continuity.storage import definition as register
from holdfast.continuity.storage import write as writes
from holdfast.continuity.storage.machines.decision import Outcome
from holdfast.continuity.storage.machines.freshness import FRESH_SECONDS, Freshness
from holdfast.continuity.storage.machines.intake import Intake, beginning
from holdfast.continuity.storage.machines.known_places import PlaceState
from holdfast.continuity.storage.place.catalog import Numbered
from holdfast.continuity.storage.place.confirms import Confirms
from holdfast.continuity.storage.place.lagging_places import LaggingPlaces
from holdfast.continuity.storage.place.objects import now_us
from holdfast.continuity.storage.place.place_folder import PlaceFolder
from holdfast.continuity.storage.place.supply import Supply
from holdfast.continuity.storage.place_link import LinkBroken, PlaceLinks
from holdfast.continuity.storage.places import Places
from holdfast.errors import Closed, Detached, HoldfastError, NoSuchSubscription, SubscriptionInUse, SubscriptionRemoved

log = logging.getLogger("holdfast.continuity")

# Events that are received and not confirmed.
WINDOW = 512
CONTACT_SECONDS = 1.0
AGAIN_SECONDS = 0.2
COPY_SECONDS = 30.0


class StoragePlace:
    """One place of a file store. Use it as `async with`; it works until it is closed. `application` answers for it."""

    def __init__(
        self,
        url: str,
        store: str,
        place: str,
        at: str,
        *,
        address: str,
        folder: Path | None = None,
        site: str = "",
        tls: ssl.SSLContext | None = None,
        password: str | None = None,
    ) -> None:
        """`at`: a folder, a URL of fsspec, or an HTTP server. `folder`: of the catalog, if that is no folder. `address`:
        HOST:PORT, where fronts and other places reach it. `tls`: for links to other places."""
        self.name = checked_name(place, "place")
        self.address, self.site, self._store, self._at, self._folder = address, site, store, at, folder
        self._url, self._password = url, password
        self.links = PlaceLinks(tls)
        self.start = secrets.token_hex(8)
        self._beginning = "joining"
        self._is_joined = False
        self._join_position: int | None = None
        self._freshness = Freshness()
        self._bytes = 0  # of the events that were received
        self._known = 0  # the number of the newest write, as of the last contact
        self._applied = asyncio.Event()
        self._is_closing = False
        self._tasks: list[asyncio.Task[None]] = []

    async def open(self) -> Self:
        """Lock the folder, read the definition, and begin. PlaceInUse, WrongPlace, NoSuchFileStore."""
        self._disk = await asyncio.to_thread(PlaceFolder, self._store, self.name, self._at, self._folder)
        self.objects, self.catalog = self._disk.objects, self._disk.objects.catalog
        try:
            self.client: Client = await connect(self._url, password=self._password, name=f"place-{self.name}").open()
            try:
                self.definition = await register.read(self.client, self._store)
            except BaseException:
                await self.client.close()
                raise
        except BaseException:
            self._disk.close()
            raise
        self.places = Places(self.client, self.definition)
        self.supply = Supply(self.objects, self.links, self.places, self.name)
        self._lagging = LaggingPlaces(self.client, self.definition, self.name, self.places)
        self.confirms = Confirms(self.client, self.definition, self.name, self.catalog)
        works = (
            self.places.run(), self._live(), self._keep_contact(), self.confirms.run(),
            self.supply.repair(lambda: self._is_joined),
            self.supply.sweep(self.definition.loose_seconds, lambda: self.state == "current" and not self.lag),
        )  # fmt: skip
        self._tasks = [asyncio.create_task(each) for each in works]
        self._tasks.append(asyncio.create_task(roll_call.answer_for_ever(self.client, self.definition.roll, self.description)))
        return self

    async def close(self) -> None:
        """Stop in an orderly way: whoever waits is told no, what is durable is confirmed."""
        self._is_closing = True
        self._applied.set()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        try:
            async with asyncio.timeout(FRESH_SECONDS):
                await self.confirms.flush()
        except (HoldfastError, TimeoutError) as problem:
            log.info("place %s: not everything is confirmed, it comes again: %s", self.name, problem)
        await self.client.close()
        self.links.close()
        self._disk.close()

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    async def failed(self) -> None:
        """Return, with the problem raised, when a part of the place has ended: it cannot go on."""
        done, _ = await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()

    # --- how it is ------------------------------------------------------------------------------------------------------

    @property
    def state(self) -> str:
        if self._is_closing or not self._freshness.is_fresh(self.catalog.number, asyncio.get_running_loop().time()):
            return "silent"
        if not self._is_joined:
            return self._beginning
        return "current" if self.supply.is_filled else "filling"

    @property
    def lag(self) -> int:
        """Writes that wait for the place, as of its last contact."""
        return max(0, self._known - self.catalog.number)

    def description(self) -> dict[str, Any]:
        """The answer to a roll call."""
        state = PlaceState(
            self.name, self.address, self.state, self.catalog.number, self.start, self.site, self.lag,
            kind=self.objects.shelf.kind, **self.catalog.counts(),
        )  # fmt: skip
        return {"part": "place", **msgspec.to_builtins(state)}

    async def until_applied(self, position: int, seconds: float) -> Outcome | None:
        """What became of the event at a position, when it is applied; None if that takes longer."""
        try:
            async with asyncio.timeout(seconds):
                while (outcome := self.catalog.outcome(position)) is None and not self._is_closing:
                    await self._applied.wait()
        except TimeoutError:
            return None
        return outcome

    async def until_number(self, number: int, seconds: float) -> bool:
        """Whether the write of this number is applied, at once or soon."""
        try:
            async with asyncio.timeout(seconds):
                while self.catalog.number < number and not self._is_closing:
                    await self._applied.wait()
        except TimeoutError:
            pass
        return self.catalog.number >= number

    # --- receiving ------------------------------------------------------------------------------------------------------

    async def _live(self) -> None:
        """Begin, receive, and begin anew if the subscription is gone. End if a later process has it: each would miss writes."""
        take_over = True
        while True:
            try:
                await self._begin()
                await self._receive(take_over)
            except (NoSuchSubscription, SubscriptionRemoved):
                log.warning("place %s: its writes were not kept for it any more; it copies from another place", self.name)
            except Closed:
                return
            except SubscriptionInUse as problem:
                raise SubscriptionInUse(
                    f"another place {self.name!r} was started, and has taken the place of this one; stop it, or give this one "
                    "another name"
                ) from problem
            except HoldfastError as problem:
                take_over = not isinstance(problem, Detached)
                log.warning("place %s receives nothing for the moment: %s", self.name, problem)
                await asyncio.sleep(AGAIN_SECONDS)

    async def _is_subscribed(self) -> bool:
        wanted = register.subscription_of(self.name)
        return any(each["name"] == wanted for each in await self.client.subscriptions(self.definition.writes))

    async def _begin(self) -> None:
        """Find out whether the disk is to be trusted, copy if it is not, and say that the place is there."""
        self._is_joined = False
        if not await self._is_subscribed():
            await self.objects.write(self.catalog.set_fact, "must_copy", 1)  # before it is made: it will be there next time
            await self.client.ensure_subscription(self.definition.writes, register.subscription_of(self.name))
        while True:
            told = await register.mark_told(self.client, self.definition, self.name)
            peers = self.places.current(besides=self.name)
            is_trusted = not self.catalog.fact("must_copy")
            how = beginning(is_trusted, self.catalog.number, told, [each.name for each in peers])
            self._beginning = "joining" if how == "go on" else "waiting"
            if how == "go on":
                self._join_position = await self._join()
                return
            if how == "copy" and await self._copy(peers):
                return
            await asyncio.sleep(AGAIN_SECONDS)

    async def _join(self) -> int:
        receipt = await self.client.topic(self.definition.writes).send(
            {"place": self.name, "start": self.start}, type=writes.JOIN
        )
        return receipt.position

    async def _copy(self, peers: Sequence[PlaceState]) -> bool:
        """Take over the names of a current place, as of a moment after the join. Whether it came about."""
        position = await self._join()
        for peer in peers:
            target = f"/changes?after={self.catalog.number}&position={position}"
            try:
                async with self.links.ask(peer.address, target, timeout=COPY_SECONDS) as answer:
                    if answer.status != 200:
                        continue
                    spool, _ = await self.objects.receive(answer.chunks())
                try:
                    with spool.path.open("rb") as lines:
                        await self.objects.write(self.catalog.take_copy, lines, position, now_us())
                finally:
                    spool.discard()
            except (LinkBroken, ValueError) as problem:
                log.warning("place %s could not copy from place %s: %s", self.name, peer.name, problem)
                continue
            log.info("place %s has copied the names of place %s, up to write %d", self.name, peer.name, self.catalog.number)
            self.supply.is_filled = False
            self._join_position = position
            await self.client.ensure_queue(self.definition.mark(self.name))
            await register.tell_mark(self.client, self.definition, self.name, self.catalog.number)
            return True
        return False

    async def _receive(self, take_over: bool) -> None:
        intake = Intake(self.catalog.passing_until)
        name = register.subscription_of(self.name)
        incoming: Incoming = self.client.subscribe(self.definition.writes, name, take_over=take_over, credit=WINDOW)
        async with incoming:
            async for batch in incoming.batches():
                await self._take(intake, list(batch))

    async def _take(self, intake: Intake, events: list[ReceivedEvent]) -> None:
        """Take the next events of the topic: pass over what is done, apply the rest."""
        fresh: list[ReceivedEvent] = []
        self._bytes += sum(event.size for event in events)
        for event in events:
            step = intake.judge(event.position, self.catalog.outcome(event.position) is not None)
            if step.has_passed:
                await self.objects.write(self.catalog.passed)
            if step.what == "apply":
                fresh.append(event)
        if fresh:
            await self._apply(fresh)
        self.confirms.add(events)
        if any(event.position == self._join_position for event in events):
            self._is_joined = True

    async def _apply(self, events: Sequence[ReceivedEvent]) -> None:
        number = self.catalog.number
        numbered = [
            Numbered(number + place, each.position, each.slice.accepted_us or each.head.time_us, _write_in(each))
            for place, each in enumerate(events, 1)
        ]
        while True:
            try:
                held = await self.supply.bytes_of(numbered)
                await self.objects.write(self.catalog.apply, [_lean(each) for each in numbered], held, now_us())
                break
            except OSError as problem:
                log.error("place %s cannot write, and tries again: %s", self.name, problem)
                await asyncio.sleep(CONTACT_SECONDS)
        self._applied.set()
        self._applied = asyncio.Event()

    async def _keep_contact(self) -> None:
        """Ask Holdfast how much waits. Who has applied that much has all that was written before it asked."""
        wanted = register.subscription_of(self.name)
        while True:
            asked_at = asyncio.get_running_loop().time()
            try:
                found = await self.client.subscriptions(self.definition.writes, timeout=FRESH_SECONDS)
                own = next((each for each in found if each["name"] == wanted), None)
                if own is not None:
                    self._known = self.catalog.number + max(0, own["waiting"] - len(self.confirms))
                    self._freshness.asked(asked_at, self._known)
                    if self.state == "current":
                        await self._lagging.check(found, self._known, self._bytes, asked_at)
            except Closed:
                return
            except HoldfastError as problem:
                log.info("place %s has no contact: %s", self.name, problem)
            await asyncio.sleep(CONTACT_SECONDS)


def _write_in(event: ReceivedEvent) -> writes.Write | None:
    """The write that an event is; None for others, which are counted and do nothing."""
    if event.type != writes.WRITE:
        return None
    try:
        return writes.decode(bytes(event.body))
    except ValueError as problem:
        log.warning("event %s says nothing: %r", event.id, problem)
        return None


def _lean(event: Numbered) -> Numbered:
    """Without the bytes, which are on the shelf."""
    is_small = isinstance(event.write, writes.Put) and event.write.body is not None
    return event._replace(write=msgspec.structs.replace(event.write, body=None)) if is_small else event  # type: ignore[type-var]
