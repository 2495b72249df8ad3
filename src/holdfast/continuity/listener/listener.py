"""The listener: receives the requests of a domain, calls its server with each in order, and answers the engine that asked.

    async with Listener("holdfast://host", "shop", "one", call="http://127.0.0.1:8080", store=Path("one")) as listener:
        await listener.run()

    topic ─▶ place ─▶ key judged ─▶ order ─▶ call ─▶ store ─▶ answer link
                                                       └─▶ lazily: sync, confirm

It locks its store, takes its subscription over at once, and says in the topic that it joins. When it comes to that event, it has
called everything before it and is current. Requests that were under way when it ended are in doubt, and are resolved first.

A server whose state is not to be trusted is rebuilt (`rebuild`), if the user has said how it is reset: all parts but the client
are made anew, on a store that was taken back.
"""

from __future__ import annotations

import asyncio
import logging
import pkgutil
import secrets
import ssl
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from holdfast.client.client import Client, connect
from holdfast.continuity import register, request, roll_call
from holdfast.continuity.domain import Domain, checked_name
from holdfast.continuity.effects.calls_with_effects import CallsWithEffects
from holdfast.continuity.errors import StoreDamaged
from holdfast.continuity.link import frame
from holdfast.continuity.link.answer_link import Address, AnswerLink, AnswerLinks
from holdfast.continuity.link.frame import Hello, Read, Resume, Role, ServerState, SocketFrame, SocketOpen, State
from holdfast.continuity.listener.answers import Answers, AnswerStream
from holdfast.continuity.listener.durable.mark_file import CALLS
from holdfast.continuity.listener.durable.store import Store
from holdfast.continuity.listener.durable.store_folder import boot_id
from holdfast.continuity.listener.engine_questions import EngineQuestions
from holdfast.continuity.listener.lazy_confirm import LazyConfirm
from holdfast.continuity.listener.rebuild.look_ahead import LookAhead
from holdfast.continuity.listener.rebuild.rebuild import Rebuild
from holdfast.continuity.listener.rebuild.snapshot_taker import Every, SnapshotTaker
from holdfast.continuity.listener.rebuild.upkeep import Upkeep
from holdfast.continuity.listener.rebuild.user_command import Command, user_commands
from holdfast.continuity.listener.reception import Reception
from holdfast.continuity.listener.requests_in_order import RequestsInOrder
from holdfast.continuity.listener.server.http_caller import HttpCaller
from holdfast.continuity.listener.server.server_call import Handler, ServerCall, aliases_in
from holdfast.continuity.listener.server.server_claim import ServerClaim
from holdfast.continuity.listener.server.server_trust import ServerTrust
from holdfast.continuity.listener.topic_events import TopicEvents
from holdfast.continuity.machines import change as changes
from holdfast.continuity.machines.change import Change, Effect, Moved, Registered, Skipped
from holdfast.continuity.machines.doubt import Doubt, Policy
from holdfast.continuity.machines.membership import Membership
from holdfast.continuity.machines.order import Order
from holdfast.continuity.server_certificate import ServerCertificate
from holdfast.errors import HoldfastError, NoSuchSubscription, Unavailable

log = logging.getLogger("holdfast.continuity")

# Requests that are received and not finished. Every one of them may be called: the mark has room for their calls.
WINDOW = 512
# After a lost server of Holdfast, receiving is tried again this much later.
AGAIN_SECONDS = 0.2
# After a reset the server is waited for, so long: one that is current must be there.
REACH_SECONDS = 60.0
# A listener that ends waits so long for Holdfast.
CLOSE_SECONDS = 2.0


class Listener:
    """The listener of one server. Use it as `async with`; `run` works until `stop`."""

    def __init__(
        self, url: str, domain: str, server: str, *,
        call: HttpCaller | Handler | str, store: Path, site: str = "", role: Role = "server",
        in_doubt: Policy = "resend", forgets: bool = False, probe: str = "",
        reset: Command | None = None, snapshot: Command | None = None, snapshot_every: str = "",
        tls: ssl.SSLContext | None = None, password: str | None = None, boot: bytes | None = None,
        egress: tuple[str, int] | None = None, egress_tls: ServerCertificate | None = None,
    ) -> None:  # fmt: skip
        """`call`: the server's URL, or a Python handler. `reset` and `snapshot`: how the server is taken back, and how its state
        is written (`rebuild.user_command`); `snapshot_every`: `600s`, or a number of events. `tls`: the context of answer links.
        `boot`: the id of this start of the machine, if not the system's. `egress`: where the server asks for effects; port 0: a
        free one."""
        self.server, self.site = checked_name(server, "server"), site
        self.role: Role = role
        self._url, self._password, self._domain_name = url, password, domain
        self._call, self._folder, self._policy, self._forgets, self._probe = call, store, in_doubt, forgets, probe
        self._commands = user_commands(domain, server, reset=reset, snapshot=snapshot)
        self._every = Every.parse(snapshot_every)
        self._tls, self._egress, self._egress_tls = tls, egress, egress_tls
        self._boot = boot if boot is not None else boot_id()
        self._begin_life()
        self._tasks: list[asyncio.Task[None]] = []
        self._is_stopping = asyncio.Event()

    def _begin_life(self) -> None:
        """A life of the listener: from a start, or a rebuild, to the next."""
        self.start = secrets.token_hex(8)
        self._is_joined = False  # everything before its joining is finished

    # --- opening and closing -------------------------------------------------------------------------------------------

    async def open(self) -> Self:
        """Lock the store, read the definition, take the subscription over, and join. A rebuild that is due comes first."""
        self.client: Client = await connect(self._url, password=self._password, name=f"listener-{self.server}").open()
        try:
            self.domain: Domain = await register.read(self.client, self._domain_name)
            self._claim = ServerClaim(self.client, self.domain, self.server, self.site, self._call)
            await self._claim.check()
            self._reception = Reception(self.client, self.domain, self.server, WINDOW)
            self._rebuild = Rebuild(self.client, self.domain, self.server, self._folder, self._commands.get("reset"))
            await self._begin("")
        except BaseException:
            await self.client.close()
            raise
        return self

    async def _begin(self, reason: str) -> None:
        """Open the store, or have it rebuilt for a reason; make the parts, and join."""
        opened = reason or await self._rebuild.open_store(self._boot, self._forgets)
        if isinstance(opened, Store):
            self.store = opened
        else:
            reason = opened
            self.store = await self._rebuild.begin(reason, self._boot)
        try:
            self._make_parts(is_rebuilt=bool(reason))
            await self._open_effects()
            self.events.contained = await self._reception.open(self.store.finished)
            if reason:
                await self._rebuild.reset()
                await self._server.until_reachable(REACH_SECONDS)
            await self._join()
            await self._look_ahead.look()
        except BaseException:
            await self._server.close()
            await self.links.close()
            self.store.close()
            raise

    def _make_parts(self, is_rebuilt: bool) -> None:
        domain, store = self.domain, self.store
        members = store.opened.members
        self.membership = Membership.decode(members) if members else Membership(domain.servers_min)
        function = pkgutil.resolve_name(domain.compare.function) if domain.compare.function else None
        compare = partial(AnswerStream.compared, rules=domain.compare, function=function)
        self._server = ServerCall(
            self._call, tells=domain.tell_server, knows_keys=self._policy == "resend", probe=self._probe,
            timeout=domain.call_timeout, aliases=aliases_in(domain.aliases, store.history()),
        )  # fmt: skip
        hello = Hello(frame.VERSION, domain.name, self.server, self.site, self.role, store.identity.store)
        self.links = AnswerLinks(hello, self, self._tls)
        self.answers = Answers(self.client, self.links, self.membership, self.server, domain.requests)
        self.confirms = LazyConfirm(store, lambda: self.events.place, lambda: self.events.keys.forgotten_us)
        deaths = {place: times - 1 for place, times in store.opened.in_doubt.items()} if self._server.is_in_process else {}
        trust = ServerTrust(
            forgets=self._forgets, policy=self._policy, probe=self._probe, is_told=domain.tell_server,
            is_ordered=domain.order == "domain", newest=store.newest_done,
            has_come_to=lambda one, other: self.requests.has_come_to(one, other),
            is_new=not store.opened.last or is_rebuilt or self._server.is_in_process,
        )  # fmt: skip
        self.requests = RequestsInOrder(
            store, Order(domain.order, min(WINDOW, CALLS // 2), store.finished), Doubt(self._policy, domain.call_timeout, deaths),
            self._server, self.confirms, self.answers.tell, self.answers.stream, compare, self.answers.tell_skip, self._changed,
            trust,
        )  # fmt: skip
        self._server.greet(trust)
        self._snapshots = SnapshotTaker(
            domain, self.server, store, self.confirms, self._rebuild.snapshots, self._commands.get("snapshot"), self._every,
            self.answers.tell_snapshot,
        )  # fmt: skip
        self._upkeep = Upkeep(
            self.client, domain, self.server, self.membership, self._snapshots, self.answers.tell_change, lambda: self.state_now,
            lambda: self.events.bytes, lambda: self._look_ahead.look_if_stuck(),
        )  # fmt: skip
        self.events = TopicEvents(
            domain, store, self.requests, self.membership, self._heard, self._turned, self.answers.seen, self._snapshots.heard,
            self.start,
        )  # fmt: skip
        self._look_ahead = LookAhead(self.client, domain, self.server, store, self.events, self.requests)
        self._questions = EngineQuestions(
            self._server, self.answers, store, self.requests, self.events, compare, lambda: self.state_now,
            lambda: self.client.is_linked,
        )  # fmt: skip
        if self._forgets and store.opened.last and not self._rebuild.is_possible:
            self.requests.needs_rebuild = "the server forgets, and may have been started again"
        for name in self.membership.engines:
            self._register(name)

    async def _open_effects(self) -> None:
        """Let the server ask for effects: by rule on its answers, or at the egress."""
        if self._egress is not None or self.domain.effects:
            self._server.effects = await CallsWithEffects(
                self.client, self.domain, self.server, is_certain=lambda: self._is_joined, stop_rebuild=self._stop_rebuild,
                is_replaying=lambda: self.state_now == "rebuilding", place_of=self.requests.place_of, address=self._egress,
                tls=self._egress_tls,
            ).open()  # fmt: skip

    def _stop_rebuild(self, reason: str) -> None:
        self.requests.needs_rebuild = reason
        log.error("server %s cannot be rebuilt, an operator decides: %s", self.server, reason)

    async def _join(self) -> None:
        """Say in the topic that the server is there. The reason tells this life of the listener from another."""
        change = changes.encode(
            Change("join", self.server, self.site, self.role, reason=self.start, oldest=self._rebuild.snapshots.oldest_place)
        )
        await self.client.topic(self.domain.requests).send(change, type=request.MEMBER, datacontenttype="application/json")

    async def close(self) -> None:
        """Stop in an orderly way: finish the calls in hand, sync, confirm, leave."""
        self._is_stopping.set()
        try:
            await self._end_life()
        finally:
            await self.client.close()

    async def _end_life(self) -> None:
        """End all parts but the client."""
        if self.store.is_closed:
            return
        await _cancel(self._tasks[1:])  # the first confirms until the end
        await self.requests.stop()
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._questions.close()
                await _cancel(self._tasks[:1])
                await self.confirms.flush()
                await self._reception.close()
                await self.answers.close()
        except (HoldfastError, TimeoutError) as problem:
            why = str(problem) or "Holdfast is away"
            log.warning("server %s: not everything is confirmed, it comes again: %s", self.server, why)
        finally:
            await self.links.close()
            await self._server.close()
            self.store.close()

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    # --- working -------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Work until `stop`, or until something fails that cannot be repaired here: a disk, a store."""
        name, heard = self.domain.name, self._claim.heard
        telling = asyncio.create_task(roll_call.answer_for_ever(self.client, name, self.description, self._show, heard))
        settling = asyncio.create_task(self._claim.settle())
        try:
            while await self._live():
                await self._start_over()
        finally:
            await _cancel([telling, settling])

    async def _live(self) -> bool:
        """Work until `stop`, or a rebuild; whether it is a rebuild."""
        works = (self.confirms.run(), self._reception.run(self.events, self.requests), self._upkeep.run())
        self._tasks = [asyncio.create_task(each) for each in works]
        ends = [asyncio.create_task(each.wait()) for each in (self._is_stopping, self._rebuild.wanted)]
        try:
            waited: list[asyncio.Future[Any]] = [*ends, self.requests.failure, self._claim.lost, *self._tasks]
            done, _ = await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
            for each in done:
                each.result()
        except (StoreDamaged, NoSuchSubscription) as problem:
            if not self._rebuild.is_possible:
                raise
            self._rebuild.want(str(problem))
        finally:
            for end in ends:
                end.cancel()
        return self._rebuild.wanted.is_set() and not self._is_stopping.is_set()

    async def _start_over(self) -> None:
        """Rebuild the server, and join again."""
        reason = self._rebuild.take_wish()
        await self._rebuild.tell(reason)
        await self._end_life()
        while not self._is_stopping.is_set():
            self._begin_life()
            self._rebuild.take_wish()  # what the life before still wanted
            try:
                return await self._begin(reason)
            except (Unavailable, NoSuchSubscription) as problem:
                log.warning("server %s is not rebuilt yet: %s", self.server, problem)
                await asyncio.sleep(AGAIN_SECONDS)
        return None

    def _changed(self) -> None:
        """The state of the server is another, perhaps."""
        if self.requests.needs_rebuild:
            self._rebuild.want(self.requests.needs_rebuild)
        self.links.say_state()

    def stop(self) -> None:
        """Begin no further call, and let `run` return."""
        self.requests.begin_no_more()
        self._is_stopping.set()

    # --- the membership ------------------------------------------------------------------------------------------------

    def _heard(self, effect: Effect) -> None:
        """A change was received."""
        if isinstance(effect, Registered):
            self._register(effect.engine)
        elif isinstance(effect, Skipped):
            self.requests.skip(effect.transaction)
        elif isinstance(effect, Moved):
            self.links.say_state(with_members=True)
            if self.events.has_joined and effect.server == self.server and effect.state in ("removed", "rebuilding"):
                self._rebuild.want(effect.reason or f"it is {effect.state}")

    def _register(self, name: str) -> None:
        engine = self.membership.engines.get(name)
        if engine is None:
            self.links.unregister(name)
        else:
            self.links.register(Address(name, engine.start, engine.address, engine.tls, engine.local))

    def _turned(self, change: Change) -> None:
        """The turn of a change has come: everything before it is finished. At its own joining, the server is current. When it is
        drained, its listener ends."""
        if self._is_joined and (change.kind, change.server) == ("drain", self.server) and self.state_now == "drained":
            log.info("server %s is drained", self.server)
            self.stop()
        if change.kind == "join" and (change.server, change.reason) == (self.server, self.start):
            self._is_joined = True
            member = self.membership.members.get(self.server)
            if member is not None and member.state != "current":
                self.answers.tell_change(Change("current", self.server, since=member.since_place))
            self.links.say_state(with_members=True)

    # --- what engines ask ----------------------------------------------------------------------------------------------

    @property
    def state_now(self) -> ServerState:
        """How the server is."""
        member = self.membership.members.get(self.server)
        if member is not None and member.state in ("drained", "removed", "rebuilding"):
            return member.state
        if self.requests.needs_rebuild:
            return "rebuilding"
        if not self._is_joined:
            return "joining"
        return "in doubt" if self.requests.doubt.in_doubt else "behind" if self.requests.is_behind else "current"

    def state(self, with_members: bool) -> State:
        return self._questions.state(with_members)

    def read(self, link: AnswerLink, asked: Read) -> None:
        self._questions.read(link, asked)

    def stop_stream(self, number: str) -> None:
        self._questions.stop_stream(number)

    def traced(self, trace: str) -> str:
        return self.requests.traced(trace)

    def resume(self, link: AnswerLink, asked: Resume) -> None:
        self._questions.resume(link, asked)

    def socket(self, link: AnswerLink, asked: SocketOpen | SocketFrame) -> None:
        self._questions.socket(link, asked)

    def _show(self, transaction: str) -> roll_call.StoredAnswer:
        return roll_call.StoredAnswer(self.server, self.role, transaction, self._questions.stored(transaction))

    def description(self) -> dict[str, Any]:
        """The answer to a roll call."""
        state = self.state(False)
        return {
            "part": "listener", "name": self.server, "site": self.site, "role": self.role, "state": state.state,
            "finished": state.finished, "lag": state.received - state.finished, "in_doubt": state.in_doubt, "keys": state.keys,
            "needs_rebuild": self.requests.needs_rebuild, "unknown": self.requests.trust.unknown, "calls": self._claim.calls,
        }  # fmt: skip


async def _cancel(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks, timeout=CLOSE_SECONDS)
