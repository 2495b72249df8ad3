"""The requests of a listener, in order: each is called when its turn has come, recorded, answered, and finished once.

    admit ─▶ judged by its key ─▶ waits its turn (`machines.order`) ─▶ reserved ─▶ call ─▶ record ─▶ answer ─▶ finish
                 │ known: the stored answer of the first, once that is finished          │
                 │ clash: 422                                                            └─▶ failed: in doubt (`machines.doubt`)
                                                                                              resend, ask, or hold

Nothing follows a call in doubt on its keys (continuity rule 3). A request with a known key is never called, also if the body of
its answer is gone (continuity rule 1).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec

from holdfast.continuity.answer import Answer, Outcome
from holdfast.continuity.listener.answers import AnswerStream
from holdfast.continuity.listener.durable.record import Record, RecordOutcome
from holdfast.continuity.listener.durable.store import Store
from holdfast.continuity.listener.entry import SKIPPED, Entry, Tell
from holdfast.continuity.listener.lazy_confirm import LazyConfirm
from holdfast.continuity.listener.server.server_call import Called, ServerCall
from holdfast.continuity.listener.server.server_connection import CallFailed
from holdfast.continuity.listener.server.server_trust import ServerTrust
from holdfast.continuity.machines.doubt import Decision, Doubt
from holdfast.continuity.machines.effects import trace_of
from holdfast.continuity.machines.known_keys import Clash, Known, New
from holdfast.continuity.machines.order import Order
from holdfast.continuity.request import Request

log = logging.getLogger("holdfast.continuity")

# Errors of the server for which it is not known yet which answer was given.
ERRORS_MAX = 1_024


class RequestsInOrder:
    """The requests of one server. `tell` answers engines, `stream` while an answer comes; `compare` gives the digest of an answer
    that is compared."""

    def __init__(
        self,
        store: Store,
        order: Order,
        doubt: Doubt,
        server: ServerCall,
        confirms: LazyConfirm,
        tell: Tell,
        stream: Callable[[Request, int], AnswerStream],
        compare: Callable[[Answer, AnswerStream], bytes],
        publish_skip: Callable[[str, str], None],
        changed: Callable[[], None],
        trust: ServerTrust,
    ) -> None:
        self._store = store
        self.order = order
        self.doubt = doubt
        self._server = server
        self._confirms = confirms
        self._tell = tell
        self._stream = stream
        self._compare = compare
        self._publish_skip = publish_skip
        self._changed = changed  # the state of the server
        self.trust = trust
        trust.when_lost(self.want_rebuild)
        self._errors: dict[str, bytes] = {}  # own answers of 5xx, the newest: by key, what is compared
        self._failing: set[int] = set()  # places whose calls fail for the moment
        self._behind_up_to = 0  # a server that failed is behind until it has caught up to here
        self._is_advancing = False
        self._positions: dict[int, Entry] = {}
        self._entries: dict[int, Entry] = {}
        self._transactions: dict[str, Entry] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._room = asyncio.Event()
        self._is_stopping = False
        self.confirm_again = confirms.add  # an event that is finished was delivered again
        self.failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.needs_rebuild = ""  # why the server must be rebuilt; "" if it need not

    # --- admitting -----------------------------------------------------------------------------------------------------

    def admit(self, entry: Entry, keys: tuple[str, ...] | None) -> None:
        """Enter an event, in the order of the topic."""
        self._enter(entry, keys)
        if entry.place in self._store.opened.in_doubt and isinstance(entry.judgement, New) and entry.request is not None:
            has_died = self._server.is_in_process
            (entry.decision,) = self.doubt.restored([entry.place], time.monotonic(), has_died)
            self._changed()

    def pass_over(self, entry: Entry, record: Record) -> None:
        """Enter an event that waits for nobody and needs no call."""
        self._enter(entry, (f"\0{entry.place}",))
        self._finish(entry, record)

    def repeat(self, entry: Entry) -> None:
        """Enter an event that was finished in an earlier life. Its engine may still wait for the answer."""
        self._enter(entry, (f"\0{entry.place}",))
        self._leave(entry)
        answer = self._store.find(entry.place)
        if answer is not None:
            self._say(entry, "answered", answer)

    def _enter(self, entry: Entry, keys: tuple[str, ...] | None) -> None:
        self._entries[entry.place] = self._positions[entry.event.position] = entry
        if entry.request is not None:
            self._transactions[entry.request.transaction] = entry
        self.order.admit(entry.place, keys)

    def at_position(self, position: int) -> Entry | None:
        """The event at this position, if it is under way."""
        return self._positions.get(position)

    async def until_room(self) -> None:
        """Return when the window has room for one more."""
        while self.order.is_full:
            self._room.clear()
            await self._room.wait()

    def advance(self) -> None:
        """Begin what may begin. What is finished by that lets others begin, in the same loop."""
        if self._is_advancing:
            return
        self._is_advancing = True
        try:
            while places := self.order.take():
                for place in places:
                    self._begin(self._entries[place])
        finally:
            self._is_advancing = False

    def _begin(self, entry: Entry) -> None:
        judgement = entry.judgement
        if entry.work is not None:
            self._run(self._work(entry))
        elif entry.apply is not None:
            self._finish(entry, entry.apply())
        elif isinstance(judgement, Clash):
            self._end(entry, "clash", None, "the key was used for another request, or with other credentials")
        elif isinstance(judgement, Known):
            first = self._entries.get(judgement.place)
            if first is None:
                self._replay(entry, judgement)
            else:
                first.followers.append(entry)
        else:
            self._start(entry)

    def _replay(self, entry: Entry, known: Known) -> None:
        """Answer from the store: the key is known."""
        answer = self._store.find(known.place)
        if answer is None:
            self._end(entry, "gone", None, "the body of the stored answer is kept no more")
        elif not known.is_given(answer.comparison):
            self._end(entry, "differs", None, "another server's answer was given, and this one's differs")
        else:
            self._finish(entry, entry.record("replayed"))
            self._say(entry, "replayed", answer)

    # --- calling -------------------------------------------------------------------------------------------------------

    def _start(self, entry: Entry) -> None:
        if self._is_stopping or self.needs_rebuild:
            return None
        is_at_once = entry.decision is None and entry.place <= self._store.reserved_up_to and self._server.is_at_hand
        if not is_at_once or entry.request is None:
            return self._run(self._process(entry))
        stream = self._begin_call(entry, entry.request)
        return self._server.begin(entry.request, stream, partial(self._told, entry, stream))

    def _told(self, entry: Entry, stream: AnswerStream, result: Answer | CallFailed) -> None:
        """A call that was begun without a task has ended."""
        stream.leave()
        try:
            if isinstance(result, CallFailed):
                self._run(self._process(entry, self._failed(entry, result)))
            else:
                self._answered(entry, Called(result), stream)
        except Exception as problem:  # of the store, as a rule
            self.fail(problem)

    def fail(self, problem: BaseException) -> None:
        """Let `run` of the listener raise this."""
        if not self.failure.done():
            self.failure.set_exception(problem)

    def _run(self, what: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(what)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    async def _work(self, entry: Entry) -> None:
        """Do what is to be done between two requests."""
        assert entry.work is not None and entry.apply is not None
        await entry.work()
        self._finish(entry, entry.apply())
        self.advance()

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (problem := task.exception()) is not None:
            self.fail(problem)

    async def _process(self, entry: Entry, decision: Decision | None = None) -> None:
        await self._confirms.reserve(entry.place)
        decision = decision or entry.decision
        while decision is None or await self._is_to_be_called(entry, decision):
            if self._is_stopping or entry.place not in self._entries:  # it was skipped meanwhile
                return
            decision = await self._call(entry)
            if decision is None:
                return

    async def _call(self, entry: Entry) -> Decision | None:
        """Call the server. None when it has answered; what to do if it has not."""
        assert entry.request is not None
        stream = self._begin_call(entry, entry.request)
        try:
            called = await self._server.call(entry.request, stream)
        except CallFailed as failure:
            return self._failed(entry, failure)
        finally:
            stream.leave()
        self._answered(entry, called, stream)
        return None

    def _begin_call(self, entry: Entry, asked: Request) -> AnswerStream:
        """Note a call before it is made."""
        self._store.begin(entry.place)
        self.doubt.began(entry.place, time.monotonic(), self.trust.start)
        entry.is_called = True
        return self._stream(asked, entry.place)

    def _failed(self, entry: Entry, failure: CallFailed) -> Decision:
        """A call has no answer: what to do."""
        assert entry.request is not None
        entry.is_called = False
        self._room.set()
        log.warning("transaction %s: the call failed: %s", entry.request.transaction, failure)
        self._say_failed(entry, str(failure))
        decision = self.doubt.failed(entry.place, failure.kind, time.monotonic())
        if self.trust.lost(failure.kind) and decision.action != "skip":  # it may have been started again (continuity rule 12)
            decision = Decision(entry.place, "rebuild")
        self._changed()
        return decision

    def _answered(self, entry: Entry, called: Called, stream: AnswerStream) -> None:
        assert entry.request is not None
        entry.is_called = False
        self.trust.answered()
        answer = msgspec.structs.replace(called.answer, comparison=self._compare(called.answer, stream))
        if answer.head.status >= 500:
            self._errors[entry.request.key] = answer.comparison
            if len(self._errors) > ERRORS_MAX:
                del self._errors[next(iter(self._errors))]
        if stream.is_begun:
            self._end_stream(entry, answer, stream)
        else:
            self._end(entry, "answered", answer, aliases=called.aliases)

    def _end_stream(self, entry: Entry, answer: Answer, stream: AnswerStream) -> None:
        """Store an answer, without its body if that is too large, and send what was not sent."""
        self._finish(entry, entry.record("answered", answer if stream.is_kept else None))
        if not stream.end(answer.comparison):
            is_kept = stream.is_kept
            self._say(entry, "answered" if is_kept else "gone", answer if is_kept else None, "the answer is too large to be kept")
        self.advance()

    async def _is_to_be_called(self, entry: Entry, decision: Decision) -> bool:
        """Resolve a doubt; whether the request is to be called again. A skip and a rebuild leave it where it is."""
        assert entry.request is not None
        while True:
            await asyncio.sleep(max(0.0, decision.at - time.monotonic()))
            if decision.action == "resend":
                return True
            if decision.action == "done":
                self._end(entry, "failed", None, "the server has done it, and its answer is lost")
                return False
            if decision.action == "skip" and entry.is_given:
                self.want_rebuild(f"it dies of transaction {entry.request.transaction}, which another has answered")
                return False
            if decision.action == "skip":
                deaths = self.doubt.deaths.get(entry.place, 0)
                self._publish_skip(entry.request.transaction, f"the server died of it {deaths} times")
                return False
            if decision.action == "rebuild":
                self.want_rebuild(f"transaction {entry.request.transaction} is in doubt")
                return False
            probed = await self._server.probe(entry.request.transaction)
            following = self.doubt.probed(entry.place, probed.state, time.monotonic(), probed.start)
            if following is None:
                return False
            decision = following

    def given(self, key: str, digest: bytes) -> None:
        """This answer was given. If the server's own was an error, its state is not that of the others (continuity rule 4)."""
        own = self._errors.pop(key, digest)
        if own != digest:
            self.want_rebuild(f"it answered an error where another answer was given (key {key})")
        for entry in [self._entries[place] for place in self._failing]:
            if entry.request is not None and entry.request.key == key:
                entry.is_given = True
                if self.doubt.answered_elsewhere(entry.place):
                    self.want_rebuild(f"it dies of transaction {entry.request.transaction}, which another has answered")

    def want_rebuild(self, reason: str) -> None:
        """Call no more: the state of the server is not to be trusted."""
        self.needs_rebuild = self.needs_rebuild or reason
        self._changed()

    def traced(self, trace: str) -> str:
        """The transaction with this trace that is not finished here; "" for none."""
        return next((each for each in self._transactions if trace_of(each) == trace), "")

    def place_of(self, transaction: str) -> int:
        """The place of a transaction that is under way; 0 if it is not."""
        return self._transactions[transaction].place if transaction in self._transactions else 0

    def has_come_to(self, transaction: str, other: str) -> bool:
        """Whether a transaction is under way, or is another one that was finished, or came after it."""
        place, at = self._store.place_of(transaction), self._store.place_of(other)
        return transaction in self._transactions or (place is not None and at is not None and place >= at)

    def skip(self, transaction: str) -> None:
        """All servers have died of it: it is passed over (continuity rule 14)."""
        entry = self._transactions.get(transaction)
        if entry is not None and not entry.is_called:
            self._end(entry, "skipped", SKIPPED)

    # --- finishing -----------------------------------------------------------------------------------------------------

    def _end(
        self, entry: Entry, outcome: RecordOutcome, answer: Answer | None, reason: str = "", aliases: bytes | None = None
    ) -> None:
        self._finish(entry, entry.record(outcome, answer, aliases))
        self._say(entry, "answered" if outcome in ("answered", "skipped") else outcome, answer, reason)  # type: ignore[arg-type]
        self.advance()

    def _finish(self, entry: Entry, record: Record) -> None:
        self._store.append(record)
        self._leave(entry)
        for follower in entry.followers:
            assert isinstance(follower.judgement, Known)
            self._replay(follower, follower.judgement)

    def _leave(self, entry: Entry) -> None:
        del self._entries[entry.place], self._positions[entry.event.position]
        if entry.request is not None:
            self._transactions.pop(entry.request.transaction, None)
        self.doubt.finished(entry.place)
        self.order.finish(entry.place)
        self._confirms.add(entry.place, entry.event)
        self._room.set()
        if self._failing:
            self._failing.discard(entry.place)
            self._changed()

    def _say(self, entry: Entry, outcome: Outcome, answer: Answer | None, reason: str = "") -> None:
        if entry.request is not None:
            self._tell(entry.request, entry.place, outcome, answer, reason)

    def _say_failed(self, entry: Entry, reason: str) -> None:
        """Say once that there is no answer yet: the engine need not wait for this server."""
        self._failing.add(entry.place)
        self._behind_up_to = self.order.admitted
        if not entry.is_told:
            entry.is_told = True
            self._say(entry, "failed", None, reason)

    @property
    def is_behind(self) -> bool:
        """The server fails, or has not caught up since it did."""
        return bool(self._failing) or self.order.finished < self._behind_up_to

    # --- stopping ------------------------------------------------------------------------------------------------------

    def begin_no_more(self) -> None:
        self._is_stopping = True

    async def stop(self) -> None:
        """Begin no more, and wait for the calls in hand. Those in doubt stay so."""
        self.begin_no_more()
        while any(entry.is_called for entry in self._entries.values()):
            self._room.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(1):
                    await self._room.wait()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
