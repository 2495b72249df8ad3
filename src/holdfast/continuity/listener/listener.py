"""The listener: receives the requests of a domain, calls its server with each in order, and answers the engine that asked.

    async with Listener("holdfast://host", "shop", "one", call="http://127.0.0.1:8080", store=Path("one")) as listener:
        await listener.run()

    topic ─▶ place ─▶ key judged ─▶ order ─▶ call ─▶ store ─▶ answer link
                                                       └─▶ lazily: sync, confirm

It locks its store, takes its subscription over at once, and says in the topic that it joins. When it comes to that event, it has
called everything before it and is current. Requests that were under way when it ended are in doubt, and are resolved first.
"""

from __future__ import annotations

import asyncio
import logging
import pkgutil
import secrets
import ssl
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from holdfast.client.client import Client, connect
from holdfast.client.receiving.incoming import Incoming
from holdfast.continuity import register, request, roll_call
from holdfast.continuity.answer import Answer
from holdfast.continuity.domain import HISTORY, Domain, checked_name, subscription_of
from holdfast.continuity.effects.calls_with_effects import CallsWithEffects
from holdfast.continuity.link import frame
from holdfast.continuity.link.answer_link import Address, AnswerLink, AnswerLinks
from holdfast.continuity.link.frame import Hello, Read, Resume, Role, Seen, ServerState, State
from holdfast.continuity.listener.answers import Answers, AnswerStream
from holdfast.continuity.listener.http_caller import HttpCaller
from holdfast.continuity.listener.lazy_confirm import LazyConfirm
from holdfast.continuity.listener.mark_file import CALLS
from holdfast.continuity.listener.reads import Reads
from holdfast.continuity.listener.requests_in_order import RequestsInOrder
from holdfast.continuity.listener.server_call import Handler, ServerCall, aliases_in
from holdfast.continuity.listener.store import Store
from holdfast.continuity.listener.store_folder import boot_id
from holdfast.continuity.listener.topic_events import TopicEvents
from holdfast.continuity.machines.change import Change, Effect, Moved, Registered, Skipped
from holdfast.continuity.machines.comparison import comparison_digest, raw_comparison_digest
from holdfast.continuity.machines.doubt import Doubt, Policy
from holdfast.continuity.machines.membership import Membership
from holdfast.continuity.machines.order import Order
from holdfast.errors import Closed, Damaged, HoldfastError, NoSuchSubscription, Refused

log = logging.getLogger("holdfast.continuity")

# Requests that are received and not finished. Every one of them may be called: the mark has room for their calls.
WINDOW = 512
# After a lost server of Holdfast, receiving is tried again this much later.
AGAIN_SECONDS = 0.2
# A listener that ends waits so long for Holdfast.
CLOSE_SECONDS = 2.0


class Listener:
    """The listener of one server. Use it as `async with`; `run` works until `stop`."""

    def __init__(
        self,
        url: str,
        domain: str,
        server: str,
        *,
        call: HttpCaller | Handler | str,
        store: Path,
        site: str = "",
        role: Role = "server",
        in_doubt: Policy = "resend",
        forgets: bool = False,
        probe: str = "",
        tls: ssl.SSLContext | None = None,
        password: str | None = None,
        boot: bytes | None = None,
        egress: tuple[str, int] | None = None,
    ) -> None:
        """`call`: the server's URL, or a Python handler. `tls`: the context of answer links. `boot`: the id of this start of the
        machine, if it is not the system's. `egress`: where the server asks for effects; port 0 takes a free one."""
        self.server = checked_name(server, "server")
        self.site = site
        self.role: Role = role
        self._url, self._password, self._domain_name = url, password, domain
        self._call, self._folder, self._policy, self._forgets, self._probe = call, store, in_doubt, forgets, probe
        self._tls = tls
        self._egress = egress
        self._boot = boot if boot is not None else boot_id()
        self.start = secrets.token_hex(8)
        self._is_joined = False  # everything before its joining is finished
        self._tasks: list[asyncio.Task[None]] = []
        self._is_stopping = asyncio.Event()

    # --- opening and closing -------------------------------------------------------------------------------------------

    async def open(self) -> Self:
        """Lock the store, read the definition, take the subscription over, and join."""
        self.client: Client = await connect(self._url, password=self._password, name=f"listener-{self.server}").open()
        try:
            self.domain: Domain = await register.read(self.client, self._domain_name)
            self.store = Store.open(self._folder, self.domain.name, self.server, self._boot, self.domain.answers_bytes)
        except BaseException:
            await self.client.close()
            raise
        try:
            self._make_parts()
            await self._open_effects()
            await self._ensure_subscription()
            self._incoming = await self._subscribed()
            await self._join()
        except BaseException:
            await self._server.close()
            await self.client.close()
            self.store.close()
            raise
        return self

    def _make_parts(self) -> None:
        domain, store = self.domain, self.store
        members = store.opened.members
        self.membership = Membership.decode(members) if members else Membership(domain.servers_min)
        self._function = pkgutil.resolve_name(domain.compare.function) if domain.compare.function else None
        knows_keys = self._policy == "resend"
        self._server = ServerCall(
            self._call,
            tells=domain.tell_server,
            knows_keys=knows_keys,
            probe=self._probe,
            timeout=domain.call_timeout,
            aliases=aliases_in(domain.aliases, store.history()),
        )
        hello = Hello(frame.VERSION, domain.name, self.server, self.site, self.role, store.identity.store)
        self.links = AnswerLinks(hello, self, self._tls)
        self.answers = Answers(self.client, self.links, self.membership, self.server)
        self._reads = Reads(self._server, self.answers, self._digest)
        self.confirms = LazyConfirm(store, lambda: self.events.place)
        deaths = {place: times - 1 for place, times in store.opened.in_doubt.items()} if self._server.is_in_process else {}
        self.requests = RequestsInOrder(
            store, Order(domain.order, min(WINDOW, CALLS // 2), store.finished), Doubt(self._policy, domain.call_timeout, deaths),
            self._server, self.confirms, self.answers.tell, self.answers.stream, self._digest, self._publish_skip,
            self.links.say_state,
        )  # fmt: skip
        self.events = TopicEvents(domain, store, self.requests, self.membership, self._heard, self._turned, self._seen)
        if self._forgets and store.opened.last:
            self.requests.needs_rebuild = "the server forgets, and may have been started again"
        for name in self.membership.engines:
            self._register(name)

    async def _open_effects(self) -> None:
        """Let the server ask for effects: by rule on its answers, or at the egress."""
        if self._egress is None and not self.domain.effects:
            return
        self._server.effects = CallsWithEffects(
            self.client, self.domain, self.server, is_certain=lambda: self._is_joined, stop_rebuild=self._stop_rebuild,
            is_replaying=lambda: self.state_now == "rebuilding", address=self._egress,
        )  # fmt: skip
        await self._server.effects.open()

    def _stop_rebuild(self, reason: str) -> None:
        self.requests.needs_rebuild = reason
        log.error("server %s cannot be rebuilt, an operator decides: %s", self.server, reason)

    @property
    def egress_port(self) -> int:
        """The port at which the server asks for effects; 0 without an egress."""
        effects = self._server.effects
        return effects.address.port if effects is not None and effects.address is not None else 0

    def _digest(self, answer: Answer, stream: AnswerStream) -> bytes:
        """The digest of what is compared; of a body that is too large to keep, byte for byte."""
        if not stream.is_kept:
            return raw_comparison_digest(answer.head, stream.digest, self.domain.compare)
        return comparison_digest(answer, self.domain.compare, self._function)

    async def _ensure_subscription(self) -> None:
        topic, name = self.domain.requests, subscription_of(self.server)
        if any(each["name"] == name for each in await self.client.subscriptions(topic)):
            return
        if self.store.opened.last:
            raise Refused(f"the subscription of server {self.server!r} is gone, and events with it; rebuild this server")
        try:
            await self.client.create_subscription(topic, name, like=HISTORY)
        except NoSuchSubscription:
            await self.client.create_subscription(topic, name)

    async def _subscribed(self) -> Incoming:
        name = subscription_of(self.server)
        return await self.client.subscribe(self.domain.requests, name, take_over=True, credit=WINDOW).open()

    async def _join(self) -> None:
        """Say in the topic that the server is there. The reason tells this start of the listener from another."""
        change = Change("join", self.server, self.site, self.role, reason=self.start)
        topic = self.client.topic(self.domain.requests)
        await topic.send(msgspec.json.encode(change), type=request.MEMBER, datacontenttype="application/json")

    async def close(self) -> None:
        """Stop in an orderly way: finish the calls in hand, sync, confirm, leave."""
        self._is_stopping.set()
        for task in self._tasks[1:]:  # the first confirms until the end
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks[1:], timeout=CLOSE_SECONDS)
        await self.requests.stop()
        try:
            for task in self._tasks[:1]:
                task.cancel()
            async with asyncio.timeout(CLOSE_SECONDS):
                await asyncio.gather(*self._tasks[:1], self._reads.stop(), return_exceptions=True)
                await self.confirms.flush()
                await self._incoming.close()
                await self.answers.close()
        except (HoldfastError, TimeoutError) as problem:
            log.warning(
                "server %s: not everything is confirmed, it comes again: %s", self.server, str(problem) or "Holdfast is away"
            )
        finally:
            await self.links.close()
            await self._server.close()
            await self.client.close()
            self.store.close()

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    # --- working -------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Work until `stop`, or until something fails that cannot be repaired here: a disk, a store."""
        describe = roll_call.answer_for_ever(self.client, self.domain.name, self.description)
        self._tasks = [asyncio.create_task(each) for each in (self.confirms.run(), self._receive(), describe)]
        stopping = asyncio.create_task(self._is_stopping.wait())
        try:
            waited: list[asyncio.Future[Any]] = [stopping, self.requests.failure, *self._tasks]
            done, _ = await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
            for each in done:
                each.result()
        finally:
            stopping.cancel()

    def stop(self) -> None:
        """Begin no further call, and let `run` return."""
        self.requests.begin_no_more()
        self._is_stopping.set()

    async def _receive(self) -> None:
        while True:
            try:
                async for batch in self._incoming.batches():
                    for event in batch:
                        await self.events.admit(event)
                        self.requests.advance()
                        await self.requests.until_room()
                return
            except (Closed, Damaged):
                raise
            except HoldfastError as problem:
                log.warning("server %s receives nothing for the moment: %s", self.server, problem)
                await asyncio.sleep(AGAIN_SECONDS)
                self._incoming = await self._subscribed_again()

    async def _subscribed_again(self) -> Incoming:
        while True:
            try:
                return await self._subscribed()
            except (NoSuchSubscription, Closed):
                raise
            except HoldfastError as problem:
                log.info("server %s waits for Holdfast: %s", self.server, problem)
                await asyncio.sleep(AGAIN_SECONDS)

    # --- the membership ------------------------------------------------------------------------------------------------

    def _heard(self, effect: Effect) -> None:
        """A change was received."""
        if isinstance(effect, Registered):
            self._register(effect.engine)
        elif isinstance(effect, Skipped):
            self.requests.skip(effect.transaction)
        elif isinstance(effect, Moved):
            self.links.say_state(with_members=True)

    def _register(self, name: str) -> None:
        engine = self.membership.engines.get(name)
        if engine is None:
            self.links.unregister(name)
        else:
            self.links.register(Address(name, engine.start, engine.address, engine.tls))

    def _turned(self, change: Change) -> None:
        """The turn of a change has come: everything before it is finished. At its own joining, the server is current."""
        if change.kind == "join" and (change.server, change.reason) == (self.server, self.start):
            self._is_joined = True
            member = self.membership.members.get(self.server)
            if member is not None and member.state != "current":
                self._publish(Change("current", self.server, since=member.since_place), request.MEMBER)
            self.links.say_state(with_members=True)

    def _publish(self, change: Change, type: str) -> None:
        data = msgspec.json.encode(change)
        self.answers.publish(self.client.topic(self.domain.requests), data, type, datacontenttype="application/json")

    def _publish_skip(self, transaction: str, reason: str) -> None:
        self._publish(Change("skip", self.server, transaction=transaction, reason=reason), request.SKIP)

    def _seen(self, told: Any) -> None:
        """A session is in the subscription of this server, which is durable."""
        link = self.links.get(str(told.get("engine", "")), str(told.get("start", "")))
        if link is not None:
            link.send(Seen(str(told["session"])))

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
        order = self.requests.order
        encoded = self.membership.encode() if with_members else b""
        in_doubt = len(self.requests.doubt.in_doubt)
        number = self.membership.number
        return State(self.state_now, order.finished, order.admitted, number, encoded, in_doubt, len(self.events.keys))

    def read(self, link: AnswerLink, asked: Read) -> None:
        """Answer a request that is not in the topic, if everything that it must see is finished (continuity rule 10)."""
        is_fresh = self.client.is_linked and self.state_now == "current"
        if not is_fresh or asked.place > self.requests.order.finished or asked.membership > self.membership.number:
            return self.answers.send_to(link, asked.number, 0, "declined", None, "behind, or not current")
        return self._reads.answer(link, asked, self.requests.order.finished)

    def stop_stream(self, number: str) -> None:
        """The client of a stream has left."""
        self._reads.stop_stream(number)

    def resume(self, link: AnswerLink, asked: Resume) -> None:
        """Send a stored answer again, from a byte of its body on."""
        place = self.store.place_of(asked.transaction)
        answer = self.store.find(place) if place is not None else None
        if place is not None and answer is not None:
            self.answers.send_to(link, asked.transaction, place, "answered", answer, offset=asked.offset)
        else:
            self.answers.resume(link, asked.transaction, asked.offset)

    def description(self) -> dict[str, Any]:
        """The answer to a roll call."""
        state = self.state(False)
        return {
            "part": "listener", "name": self.server, "site": self.site, "role": self.role, "state": state.state,
            "finished": state.finished, "lag": state.received - state.finished, "in_doubt": state.in_doubt, "keys": state.keys,
            "needs_rebuild": self.requests.needs_rebuild,
        }  # fmt: skip
