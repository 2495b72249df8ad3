"""A line: one route, kept at work. It opens, passes events, and after a failure begins again from its marks.

    wait for a recipient, and for the window ─▶ take the marks over ─▶ judge them ─▶ pass on what a former question left ─▶ pass
         ▲                                                                                                                   │
         └──────────────────────────────── after a pause that doubles, up to 10 s ◀──────────────────────────────────────────┘

Each line has a session, a subscription and a mark topic of its own, so that a slow or blocked route stops nobody.

Another topic or selector is another question, with a subscription of another name. The former one is drawn empty first, under the
rules of today, and deleted: what waited is kept. Events that are in both come through the new one.
"""

from __future__ import annotations

import asyncio
import logging
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime, timedelta
from functools import partial
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import msgspec

from holdfast.client.client import Client
from holdfast.client.client_session import ClientSession
from holdfast.client.receiving.receive_options import place
from holdfast.errors import Detached, HoldfastError, Unavailable
from holdfast.event import position
from holdfast.event.hops import origin_tag
from holdfast.event.position import Ranges
from holdfast.relay.definition import RelayDefinition, Route
from holdfast.relay.errors import Restored, TakenOver
from holdfast.relay.line.figures import Figures
from holdfast.relay.line.mark_store import Base, MarkStore
from holdfast.relay.line.passing import Origins, Passing, Setting, Work
from holdfast.relay.line.recipients import Recipients, excluding
from holdfast.relay.line.together import until_one_ends
from holdfast.relay.machines.marks import Mark, Marks, entry_of, judged
from holdfast.relay.machines.renaming import Renaming
from holdfast.relay.machines.rules import Sampling, Window, minute_of

log = logging.getLogger("holdfast.relay")

PAUSE_FIRST_S = 0.1
PAUSE_LONGEST_S = 10.0
# That marks are gone is said before, by another server: so long it may be on its way.
TAKEN_OVER_S = 2.0
# How often a line looks whether somebody receives here, and how much waits upstream.
LOOK_EVERY_S = 1.0
EMPTY_EVERY_S = 0.1
# What upstream may send ahead: a line is far, and a transaction takes much at once.
CREDIT_EVENTS = 20_000
CREDIT_BYTES = 8 << 20


class Source(msgspec.Struct, frozen=True):
    """A subscription upstream, or a queue."""

    destination: str
    match: str  # name, glob, regex; queue
    subscription: str = ""
    selector: str = ""
    identity: str = ""

    @property
    def topic(self) -> str | None:
        return None if self.match == "regex" else self.destination

    @property
    def regex(self) -> str | None:
        return self.destination if self.match == "regex" else None


class Attached(NamedTuple):
    """A receiver upstream, the marks of what it came holding, and how to remember where it receives."""

    incoming: Any
    marks: Marks
    know: Callable[[], Awaitable[None]]


class Line:
    def __init__(
        self, name: str, route: Route, definition: RelayDefinition, local: Client, upstream: Client,
        clock: Callable[[], datetime] | None = None,
    ) -> None:  # fmt: skip
        self.name, self.route = name, route
        self.figures = Figures()
        self.problem: HoldfastError | None = None
        self._definition = definition
        self._local, self._upstream = local, upstream
        self._source: Source | None = None
        self._window = Window(route.windows)
        zone = ZoneInfo(route.zone) if route.zone else None
        self._clock = clock or (lambda: datetime.now(zone))

    async def run(self) -> None:
        """Pass events for ever. Restored, when upstream is not what it was; TakenOver, when another process is this relay now."""
        pause_s = PAUSE_FIRST_S
        while True:
            before = self.figures.counts.appended
            try:
                await self._work()
                pause_s = PAUSE_FIRST_S
                continue
            except (Restored, TakenOver) as problem:
                self._note(problem)
                raise
            except HoldfastError as problem:
                task = asyncio.current_task()
                if task is not None and task.cancelling():  # closing failed, too: it is over all the same
                    raise asyncio.CancelledError from problem
                self._note(problem)
            if self.figures.counts.appended > before:
                pause_s = PAUSE_FIRST_S
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, PAUSE_LONGEST_S)

    def _note(self, problem: HoldfastError) -> None:
        if self.problem is None or self.problem.sentence != problem.sentence:
            log.warning("route %s does not pass events, and begins again: %s", self.name, problem)
        self.problem = problem
        self.figures.failed(problem.sentence)

    # --- one attempt -------------------------------------------------------------------------------------------------

    async def _work(self) -> None:
        origins = self._origins()
        recipients = Recipients(self._local, self.route, origins.upstream)
        await recipients.prepare()
        source = self._source = await self._subscribed(origins.own)
        sampling = Sampling(self.route.sample, self._dice)
        setting = Setting(self.name, self.route, self._definition, self._local, origins, self.figures, sampling)
        async with self._local.session(name=f"relay {self.name}") as session:
            store = await MarkStore.open(self._local, session, self._definition.marks_topic(self.name))
            try:
                work = Work(setting, session, store)
                formers = await self._formers(source)
                marks = await self._judge(store, [source, *formers])
                if await self._reason_to_wait(recipients):
                    await self._settle(work, source, marks, recipients)
                    return
                for former in formers:
                    await self._drain(work, former, source, marks)
                await self._pass(work, source, marks, recipients)
            except Detached:  # perhaps by another process that is this relay now: it took the marks before the session upstream
                await store.check_ours(TAKEN_OVER_S)
                raise
            finally:
                await store.close()

    async def _settle(self, work: Work, source: Source, marks: list[Mark], recipients: Recipients) -> None:
        """Draw nothing until somebody receives and the window is open; tell upstream meanwhile what is finished here."""
        if not any(mark.identity == source.identity for mark in marks):
            await self._until_wanted(recipients)
            return
        async with self._attached(work.store, source, marks, credit=1) as (incoming, own, _):
            passing = Passing(work, self.route.renaming(), incoming, own, partial(self._look, source), source.identity)
            await until_one_ends(settling=passing.run_settling(), until_wanted=self._until_wanted(recipients))

    async def _pass(self, work: Work, source: Source, marks: list[Mark], recipients: Recipients) -> None:
        """Pass events until something fails, nobody receives any more, or the window closes."""
        async with self._attached(work.store, source, marks) as (incoming, own, know):
            await know()
            self.problem = None
            passing = Passing(work, self.route.renaming(), incoming, own, partial(self._look, source), source.identity)
            await until_one_ends(passing=passing.run(), until_unwanted=self._until_unwanted(recipients, know))

    @asynccontextmanager
    async def _attached(
        self, store: MarkStore, source: Source, marks: list[Mark], credit: int = CREDIT_EVENTS
    ) -> AsyncIterator[Attached]:
        """Attach upstream with what is marked, in the place of a process before this one."""
        own = Marks()
        for mark in marks:
            if mark.identity == source.identity:
                own.add(mark)
        async with AsyncExitStack() as stack:
            former = store.known.session if source.match == "queue" else ""
            session = await stack.enter_async_context(
                self._upstream.session(name=f"relay {self._definition.name} {self.name}", resume=former)
            )
            know = partial(self._know, store, source, session)
            held, selector = own.marked.ranges, source.selector or None
            credit = min(credit, max(1, int(self.route.rate or CREDIT_EVENTS)))
            if source.match == "queue":
                await know()
                incoming = session.queue(source.destination).receive(
                    held=held, selector=selector, credit=credit, credit_bytes=CREDIT_BYTES
                )
            else:
                incoming = session.subscribe(
                    source.topic,
                    source.subscription,
                    regex=source.regex,
                    selector=selector,
                    take_over=True,
                    held=held,
                    credit=credit,
                    credit_bytes=CREDIT_BYTES,
                )
            opened = await stack.enter_async_context(incoming)
            if source.match == "queue":
                await know()  # it receives in a lane of its own where the queue is in another channel
            if opened.identity != source.identity:
                raise Unavailable("the subscription upstream was made anew just now")
            yield Attached(opened, own, know)

    async def _know(self, store: MarkStore, source: Source, session: ClientSession) -> None:
        """Remember where events come from; of a queue also the session, which is another one after a line was cut for long."""
        receiving = session.id if source.match == "queue" else ""
        await store.know(Base(source.identity, self.route.source, self.route.to, receiving))

    async def _judge(self, store: MarkStore, sources: list[Source]) -> list[Mark]:
        """The marks that hold; those that do not, go. Restored if upstream was restored from an older backup."""
        found = judged(store.known.identity, store.marks, [source.identity for source in sources])
        if found.restored_from and self._definition.upstreams[self.route.upstream].restored == "refuse":
            raise Restored(
                f"upstream {self.route.upstream!r} was restored from an older backup: it is {self._upstream.incarnation}, and "
                f"events were drawn from {found.restored_from}. Positions mean other events now, and what it lost is perhaps "
                f'here already. Compare the two, then say restored = "accept" at upstreams.{self.route.upstream}',
                upstream=self.route.upstream,
            )
        store.drop([mark.number for mark in found.gone])
        return found.held

    async def _look(self, source: Source, ranges: Ranges) -> Any:
        if source.match == "queue":
            return await self._upstream.outcomes(source.destination, ranges)
        return await self._upstream.outcomes(
            source.destination,
            ranges,
            subscription=source.subscription,
            match=source.match,  # type: ignore[arg-type]
        )

    # --- the subscription upstream -----------------------------------------------------------------------------------

    def _origins(self) -> Origins:
        upstream, own = (each.incarnation.partition("+")[0] for each in (self._upstream, self._local))
        return Origins(origin_tag(upstream) if upstream else 0, origin_tag(own) if own else 0)

    async def _subscribed(self, own: int) -> Source:
        route = self.route
        selector = excluding(route.selector, own)
        if route.queue:
            return await self._identified(Source(route.queue, "queue", "", selector))
        name = self._definition.subscription(self.name, route, selector)
        if route.regex:
            await self._upstream.ensure_subscription(None, name, regex=route.regex, selector=selector)
        else:
            await self._upstream.ensure_subscription(route.topic, name, selector=selector)
        return await self._identified(Source(*place(route.topic or None, route.regex or None), name, selector))

    async def _identified(self, source: Source) -> Source:
        if source.match == "queue":
            return msgspec.structs.replace(source, identity=f"{self._upstream.incarnation}:0")
        return msgspec.structs.replace(source, identity=(await self._look(source, Ranges())).identity)

    async def _formers(self, source: Source) -> list[Source]:
        """Subscriptions of this line that asked another question."""
        if source.match == "queue":
            return []
        stem = self._definition.subscription_stem(self.name)
        found = []
        for each in await self._upstream.subscriptions():
            name = each["name"]
            if name.startswith(stem) and len(name) == len(source.subscription) and name != source.subscription:
                pattern = each.get("pattern")
                former = Source(
                    pattern or each.get("topic") or "", each["match"] if pattern else "name", name, each.get("selector") or ""
                )
                found.append(await self._identified(former))
        return found

    async def _drain(self, work: Work, former: Source, source: Source, marks: list[Mark]) -> None:
        """Pass on what waits in a former subscription and is not in the new one, then delete it."""
        log.info("route %s: what waits in its former subscription %s is passed on first", self.name, former.subscription)
        known = work.store.known
        renaming = Renaming(known.source, known.to) if known.identity == former.identity else Renaming(former.destination)

        async def is_in_new(first: int, last: int) -> Ranges:
            """What the new subscription has, or left out, since it is there."""
            if position.entry_of(first) >= entry_of(source.identity):
                return Ranges.of((first, last))
            found: Ranges = (await self._look(source, Ranges.of((first, last)))).waiting
            return found

        async with self._attached(work.store, former, marks) as (incoming, own, _):
            passing = Passing(work, renaming, incoming, own, partial(self._look, former), former.identity, is_in_new)
            await until_one_ends(passing=passing.run(), until_empty=self._until_empty(former))
        await self._upstream.delete_subscription(former.topic, former.subscription, regex=former.regex, missing_ok=True)
        work.store.drop([mark.number for mark in own])  # upstream has applied all, whether that was heard or not

    async def lag(self) -> int:
        """How many events wait upstream for this line."""
        return await self._waiting_in(self._source) if self._source is not None else 0

    async def _until_empty(self, source: Source) -> None:
        while await self._waiting_in(source):  # noqa: ASYNC110  # the server tells nobody that it is empty
            await asyncio.sleep(EMPTY_EVERY_S)

    async def _waiting_in(self, source: Source) -> int:
        """How many events wait upstream, those on their way included."""
        if source.match == "queue":
            return int((await self._upstream.describe(source.destination))["waiting"])
        found = await self._upstream.subscriptions(source.topic, regex=source.regex)
        return next((each["waiting"] for each in found if each["name"] == source.subscription), 0)

    # --- when a line draws -------------------------------------------------------------------------------------------

    async def _reason_to_wait(self, recipients: Recipients) -> str:
        """Why nothing is to be drawn now; "" if there is no reason."""
        if not self._is_window_open():
            left = self._window.next_change(self._minute()) or 0
            return f"the window is closed until {self._clock() + timedelta(minutes=left):%a %H:%M}"
        if not await recipients.are_there():
            return f"nobody receives here: {self.route.to or self.route.source!r} has no durable subscription"
        return ""

    async def _until_wanted(self, recipients: Recipients) -> None:
        while reason := await self._reason_to_wait(recipients):
            self._hold(reason)
            await asyncio.sleep(LOOK_EVERY_S)

    def _minute(self) -> int:
        now = self._clock()
        return minute_of(now.weekday(), now.hour, now.minute)

    def _is_window_open(self) -> bool:
        return self._window.is_open(self._minute())

    def _hold(self, reason: str) -> None:
        if self.figures.held_back != reason:
            log.info("route %s draws nothing: %s", self.name, reason)
        self.figures.held_back = reason

    async def _until_unwanted(self, recipients: Recipients, know: Callable[[], Awaitable[None]]) -> None:
        while not await self._reason_to_wait(recipients):
            await know()
            await asyncio.sleep(LOOK_EVERY_S)

    def _dice(self, position: int) -> float:
        """The same number for the same event, also if it comes again."""
        return zlib.crc32(position.to_bytes(8, "big"), zlib.crc32(self._upstream.incarnation.encode())) / (1 << 32)
