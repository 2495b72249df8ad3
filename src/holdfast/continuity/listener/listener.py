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
import secrets
import ssl
from hashlib import blake2b
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

import msgspec

from holdfast.client.client import Client, connect
from holdfast.client.receiving.incoming import Incoming
from holdfast.client.receiving.received_event import ReceivedEvent
from holdfast.continuity import register, request, roll_call
from holdfast.continuity.answer import HOP_BY_HOP, Answer
from holdfast.continuity.domain import HISTORY, Domain, checked_name, subscription_of
from holdfast.continuity.link import frame
from holdfast.continuity.link.answer_link import Address, AnswerLink, AnswerLinks
from holdfast.continuity.link.frame import Hello, Read, Resume, Role, Seen, ServerState, State
from holdfast.continuity.listener import members as membership
from holdfast.continuity.listener.answers import Answers
from holdfast.continuity.listener.http_caller import HttpCaller
from holdfast.continuity.listener.lazy_confirm import LazyConfirm
from holdfast.continuity.listener.mark_file import CALLS
from holdfast.continuity.listener.record import Record
from holdfast.continuity.listener.requests_in_order import Entry, RequestsInOrder, request_in
from holdfast.continuity.listener.server_call import Handler, ServerCall
from holdfast.continuity.listener.server_connection import CallFailed
from holdfast.continuity.listener.store import Store
from holdfast.continuity.listener.store_folder import boot_id
from holdfast.continuity.machines.doubt import Doubt, Policy
from holdfast.continuity.machines.known_keys import KnownKeys
from holdfast.continuity.machines.order import Order
from holdfast.continuity.machines.order_keys import keys_in_order
from holdfast.errors import Closed, Damaged, HoldfastError, NoSuchSubscription, Refused, StoreDamaged

log = logging.getLogger("holdfast.continuity")

# Requests that are received and not finished. Every one of them may be called: the mark has room for their calls.
WINDOW = 512
# After a lost server of Holdfast, receiving is tried again this much later.
AGAIN_SECONDS = 0.2
_UNCOMPARED = HOP_BY_HOP | {b"date", b"server"}


def plain_digest(answer: Answer) -> bytes:
    """The digest of an answer that is compared as it is, but for the headers that never are."""
    digest = blake2b(b"%d" % answer.head.status, digest_size=request.DIGEST_BYTES)
    for name, value in sorted(each for each in answer.head.headers if each[0] not in _UNCOMPARED):
        digest.update(b"\0%s\0%s" % (name, value))
    digest.update(b"\0\0" + answer.body)
    return digest.digest()


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
    ) -> None:
        """`call`: the server's URL, or a Python handler. `tls`: the context of answer links. `boot`: the id of this start of the
        machine, if it is not the system's."""
        self.server = checked_name(server, "server")
        self.site = site
        self.role: Role = role
        self._url, self._password, self._domain_name = url, password, domain
        self._call, self._folder, self._policy, self._forgets, self._probe = call, store, in_doubt, forgets, probe
        self._tls = tls
        self._boot = boot if boot is not None else boot_id()
        self.start = secrets.token_hex(8)
        self._state: ServerState = "joining"
        self._tasks: list[asyncio.Task[None]] = []
        self._skips: dict[str, set[str]] = {}
        self._reads: set[asyncio.Task[None]] = set()
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
            await self._ensure_subscription()
            self._incoming = await self._subscribed()
            await self.client.topic(self.domain.requests).send(self._change("join"), type=request.MEMBER)
        except BaseException:
            await self._server.close()
            await self.client.close()
            self.store.close()
            raise
        return self

    def _make_parts(self) -> None:
        domain, store = self.domain, self.store
        self.members = membership.decode(store.opened.members)
        self.keys = KnownKeys(round(domain.keys_kept * 1e6))
        self._place = store.finished  # of the newest event that was received
        self._restore_keys()
        knows_keys = self._policy == "resend"
        self._server = ServerCall(
            self._call, tells=domain.tell_server, knows_keys=knows_keys, probe=self._probe, timeout=domain.call_timeout
        )
        hello = Hello(frame.VERSION, domain.name, self.server, self.site, self.role, store.identity.store)
        self.links = AnswerLinks(hello, self, self._tls)
        self.answers = Answers(self.client, self.links, self.members, self.server)
        self.confirms = LazyConfirm(store, lambda: self._place)
        deaths = {place: times - 1 for place, times in store.opened.in_doubt.items()} if self._server.is_in_process else {}
        self.requests = RequestsInOrder(
            store, Order(domain.order, min(WINDOW, CALLS // 2), store.finished), Doubt(self._policy, domain.call_timeout, deaths),
            self._server, self.confirms, self.answers.tell, plain_digest, self._publish_skip, self.links.say_state,
        )  # fmt: skip
        if self._forgets and store.opened.last:
            self.requests.needs_rebuild = "the server forgets, and may have been started again"
        for name, engine in self.members.engines.items():
            self.links.register(Address(name, engine.start, engine.address, engine.is_tls))

    def _restore_keys(self) -> None:
        """Judge all records again, in the order of places. Those behind a gap are delivered again, and judged then."""
        kept = sorted((each for each in self.store.history() if each.place <= self.store.finished), key=lambda each: each.place)
        for each in kept:
            if each.key and each.outcome != "clash":
                self.keys.judge(each.key, each.digest, each.time_us, each.place)
            self.keys.advance(each.time_us)
            for key, digest in each.given or ():
                self.keys.given(key, digest)

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

    async def close(self) -> None:
        """Stop in an orderly way: finish the calls in hand, sync, confirm, leave."""
        self._is_stopping.set()
        for task in self._tasks[1:]:  # the first confirms until the end
            task.cancel()
        await asyncio.gather(*self._tasks[1:], return_exceptions=True)
        await self.requests.stop()
        try:
            for task in (*self._tasks[:1], *self._reads):
                task.cancel()
            await asyncio.gather(*self._tasks[:1], *self._reads, return_exceptions=True)
            await self.confirms.flush()
            await self._incoming.close()
        except HoldfastError as problem:
            log.warning("server %s: not everything is confirmed, it comes again: %s", self.server, problem)
        finally:
            await self.answers.close()
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
                        await self._admit(event)
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

    # --- events of the topic -------------------------------------------------------------------------------------------

    async def _admit(self, event: ReceivedEvent) -> None:
        place = self.store.place_at(event.position)
        if place is not None and place <= self._place:  # finished here; its confirm was lost
            return self.confirms.add(place, event)
        entry = self.requests.at_position(event.position)
        if entry is not None:  # under way here; it was delivered again
            entry.event = event
            return None
        self._place += 1
        entry = Entry(self._place, event, event.slice.accepted_us or event.head.time_us)
        if place is not None and place != self._place:
            raise StoreDamaged(f"the event at place {self._place} was recorded at place {place}; rebuild this server")
        if event.type == request.REQUEST:
            return await self._admit_request(entry, is_recorded=place is not None)
        return self._admit_other(entry, is_recorded=place is not None)

    async def _admit_request(self, entry: Entry, is_recorded: bool) -> None:
        try:
            asked = await request_in(entry.event)
        except ValueError as problem:
            log.warning("%s", problem)
            return self.requests.pass_over(entry, entry.record("passed"))
        entry.request = asked
        entry.judgement = self.keys.judge(asked.key, asked.digest, entry.time_us, entry.place)
        if is_recorded:
            return self.requests.repeat(entry)
        return self.requests.admit(entry, keys_in_order(self.domain, asked.session, asked.content))

    def _admit_other(self, entry: Entry, is_recorded: bool) -> None:
        self.keys.advance(entry.time_us)
        try:
            told = entry.event.data
            if entry.event.type in (request.MEMBER, request.SNAPSHOT):
                entry.apply = lambda: self._change_members(entry, told)
                return self.requests.admit(entry, None)
            record = self._heed(entry, told)
        except (KeyError, TypeError, ValueError, AttributeError) as problem:
            log.warning("event %s of type %s says nothing: %r", entry.event.id, entry.event.type, problem)
            record = entry.record("passed")
        return self.requests.repeat(entry) if is_recorded else self.requests.pass_over(entry, record)

    def _heed(self, entry: Entry, told: Any) -> Record:
        """An event that waits for nobody: act by it, and record it."""
        record = entry.record("passed")
        if entry.event.type == request.ENGINE:
            name = self.members.register(told)
            engine = self.members.engines[name]
            self.links.register(Address(name, engine.start, engine.address, engine.is_tls))
            return msgspec.structs.replace(record, members=self.members.encode())
        if entry.event.type == request.GIVEN:
            given = [(str(key), bytes.fromhex(digest)) for key, _, digest in told["given"]]
            for key, digest in given:
                self.keys.given(key, digest)
            return msgspec.structs.replace(record, given=given)
        if entry.event.type == request.SESSION:
            self._say_seen(told)
        elif entry.event.type == request.SKIP:
            self._count_skip(str(told["transaction"]), str(told.get("server", "")))
        return record

    def _change_members(self, entry: Entry, told: Any) -> Record:
        if entry.event.type == request.MEMBER and isinstance(told, dict) and "kind" in told:
            self.members.change(told)
            if told.get("server") == self.server:
                self._change_own(str(told["kind"]), str(told.get("start", "")))
            self.links.say_state(with_members=True)
        return msgspec.structs.replace(entry.record("passed"), members=self.members.encode())

    def _change_own(self, kind: str, start: str) -> None:
        if kind == "join" and start == self.start:
            self._state = "current"
            self.answers.publish(self.client.topic(self.domain.requests), self._change("current"), request.MEMBER)
        elif kind in ("drain", "remove", "rebuild"):
            self._state = {"drain": "drained", "remove": "removed", "rebuild": "rebuilding"}[kind]  # type: ignore[assignment]

    def _change(self, kind: Literal["join", "current"]) -> dict[str, Any]:
        return {"kind": kind, "server": self.server, "site": self.site, "role": self.role, "start": self.start}

    def _say_seen(self, told: Any) -> None:
        link = self.links.get(str(told.get("engine", "")), str(told.get("start", "")))
        if link is not None:
            link.send(Seen(str(told["session"])))

    def _publish_skip(self, transaction: str, reason: str) -> None:
        told = {"transaction": transaction, "server": self.server, "reason": reason}
        self.answers.publish(self.client.topic(self.domain.requests), told, request.SKIP)

    def _count_skip(self, transaction: str, server: str) -> None:
        """Pass a request over when every server has died of it."""
        servers = self._skips.setdefault(transaction, set())
        servers.add(server)
        if servers >= {name for name, member in self.members.servers.items() if member.role == "server"}:
            del self._skips[transaction]
            self.requests.skip(transaction)

    # --- what engines ask ----------------------------------------------------------------------------------------------

    @property
    def state_now(self) -> ServerState:
        """How the server is."""
        if self.requests.needs_rebuild:
            return "rebuilding"
        if self._state != "current":
            return self._state
        return "in doubt" if self.requests.doubt.in_doubt else "behind" if self.requests.is_behind else "current"

    def state(self, with_members: bool) -> State:
        order = self.requests.order
        encoded = self.members.encode() if with_members else b""
        in_doubt = len(self.requests.doubt.in_doubt)
        return State(self.state_now, order.finished, order.admitted, self.members.number, encoded, in_doubt, len(self.keys))

    def read(self, link: AnswerLink, asked: Read) -> None:
        """Answer a request that is not in the topic, if everything that it must see is finished (continuity rule 10)."""
        is_fresh = self.client.is_linked and self.state_now == "current"
        if not is_fresh or asked.place > self.requests.order.finished or asked.membership > self.members.number:
            return self.answers.send_to(link, asked.number, 0, "declined", None, "behind, or not current")
        task = asyncio.create_task(self._read(link, asked))
        self._reads.add(task)
        return task.add_done_callback(self._reads.discard)

    async def _read(self, link: AnswerLink, asked: Read) -> None:
        place = self.requests.order.finished
        try:
            answer = await self._server.ask(asked.content)
        except CallFailed as failure:
            return self.answers.send_to(link, asked.number, place, "failed", None, str(failure))
        answer = msgspec.structs.replace(answer, comparison=plain_digest(answer))
        return self.answers.send_to(link, asked.number, place, "answered", answer)

    def resume(self, link: AnswerLink, asked: Resume) -> None:
        """Send a stored answer again, from a byte of its body on."""
        place = self.store.place_of(asked.transaction)
        answer = self.store.find(place) if place is not None else None
        if place is not None and answer is not None:
            self.answers.send_to(link, asked.transaction, place, "answered", answer, offset=asked.offset)

    def description(self) -> dict[str, Any]:
        """The answer to a roll call."""
        state = self.state(False)
        return {
            "part": "listener", "name": self.server, "site": self.site, "role": self.role, "state": state.state,
            "finished": state.finished, "lag": state.received - state.finished, "in_doubt": state.in_doubt, "keys": state.keys,
            "needs_rebuild": self.requests.needs_rebuild,
        }  # fmt: skip
