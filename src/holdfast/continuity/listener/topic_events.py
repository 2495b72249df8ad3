"""The events of the topic, as a listener receives them: each gets its place, keys are judged, the membership is changed.

    request                       judged by its key, then called in its turn
    member, snapshot              applied when it is received, a barrier in the order of calls
    engine, given, session, skip  heeded when it is received; waits for nobody

All of this happens in the order of the topic, when an event is received, so that it is alike at all listeners. After a restart,
records up to the place without a gap are judged again from the store. The rest is delivered again, with a record or without.

A request may be skipped by events that stand behind it (continuity rule 14): `rebuild.look_ahead` finds them before it is called.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import msgspec

from holdfast.client.receiving.received_event import Received, ReceivedEvent
from holdfast.continuity import request
from holdfast.continuity.domain import Domain
from holdfast.continuity.errors import StoreDamaged
from holdfast.continuity.listener.durable.record import Record, in_order
from holdfast.continuity.listener.durable.store import Store
from holdfast.continuity.listener.durable.store_folder import mapped
from holdfast.continuity.listener.entry import Entry, large_request_in, request_in
from holdfast.continuity.listener.requests_in_order import RequestsInOrder
from holdfast.continuity.machines import change as changes
from holdfast.continuity.machines.change import Change, Effect, Refused
from holdfast.continuity.machines.known_keys import KnownKeys
from holdfast.continuity.machines.membership import Membership
from holdfast.continuity.machines.order_keys import keys_in_order
from holdfast.continuity.request import Request

log = logging.getLogger("holdfast.continuity")

# More than can be unconfirmed: an event that is delivered again was among the newest.
PASSED_MAX = 65_536


class TopicEvents:
    """`heard` is told what a change does to the membership, and `turned` that the turn of a change has come; `seen` is told of
    sessions."""

    def __init__(
        self,
        domain: Domain,
        store: Store,
        requests: RequestsInOrder,
        membership: Membership,
        heard: Callable[[Effect], None],
        turned: Callable[[Change], None],
        seen: Callable[[Any], None],
        snapshot: Callable[[Any], Callable[[], Awaitable[None]] | None],
        start: str,
    ) -> None:
        """`snapshot` is told of snapshots, and says what is to be done at the turn of one. `start` tells this life
        of the listener from others."""
        self.place = store.finished  # of the newest event
        self.bytes = 0  # of the events that passed
        self._snapshot = snapshot
        self.contained = 0  # so many of the next events are finished, here or in the snapshot that the store was made from
        self._passed: OrderedDict[int, None] = OrderedDict()  # positions of the newest of them
        self._start = start
        self.has_joined = False  # its own joining was received: what comes now is of this life
        self.newest_position = -1  # of the events that were received
        self.skipped_ahead: set[str] = set()  # transactions that are skipped by events which are still to come
        self.keys = KnownKeys(round(domain.keys_kept * 1e6), partial(mapped, store.folder))
        self.membership = membership
        self._domain = domain
        self._store = store
        self._requests = requests
        self._heard = heard
        self._turned = turned
        self._seen = seen
        self._restore_keys()

    def _restore_keys(self) -> None:
        for each in in_order(self._store.history()):
            if each.place > self._store.finished:
                continue
            if each.key and each.outcome != "clash":
                self.keys.judge(each.key, each.digest, each.time_us, each.place)
            self.keys.advance(each.time_us)
            for key, digest in each.given or ():
                self.keys.given(key, digest)

    async def admit(self, event: ReceivedEvent) -> None:
        """Take the next event. StoreDamaged if the store has it at another place."""
        if not event.is_large or event.type != request.REQUEST:
            return self.admit_at_once(event)
        placed = self._placed(event)
        if placed is not None:
            try:
                asked: Request | ValueError = await large_request_in(event)
            except ValueError as problem:
                asked = problem
            self._admit_request(*placed, asked)
        return None

    def admit_at_once(self, event: ReceivedEvent) -> None:
        """Take the next event, one that is no large request."""
        placed = self._placed(event)
        if placed is None:
            return None
        if event.type != request.REQUEST:
            return self._admit_other(*placed)
        try:
            asked: Request | ValueError = request_in(event)
        except ValueError as problem:
            asked = problem
        return self._admit_request(*placed, asked)

    def _placed(self, event: ReceivedEvent) -> tuple[Entry, bool] | None:
        """The event at its place, and whether it was recorded before; None if there is nothing to do but confirm it."""
        if event.position in self._passed:  # it was delivered again
            self._requests.confirm_again(0, event)
            return None
        self.newest_position = max(self.newest_position, event.position)
        if self.contained:
            self.contained -= 1
            self._passed[event.position] = None
            if len(self._passed) > PASSED_MAX:
                self._passed.popitem(last=False)
            self._requests.confirm_again(0, event)
            return None
        self.bytes += event.size
        recorded = self._store.place_at(event.position)
        if recorded is not None and recorded <= self.place:  # finished here; its confirm was lost
            self._requests.confirm_again(recorded, event)
            return None
        under_way = self._requests.at_position(event.position)
        if under_way is not None:  # it was delivered again
            under_way.event = event
            return None
        self.place += 1
        if recorded is not None and recorded != self.place:
            raise StoreDamaged(f"the event at place {self.place} was recorded at place {recorded}; rebuild this server")
        return Entry(self.place, event, event.slice.accepted_us or event.head.time_us), recorded is not None

    def _admit_request(self, entry: Entry, is_recorded: bool, asked: Request | ValueError) -> None:
        if isinstance(asked, ValueError):
            return self._pass_over(entry, asked, is_recorded)
        try:
            entry.judgement = self.keys.judge(asked.key, asked.digest, entry.time_us, entry.place)
        except ValueError as problem:
            return self._pass_over(entry, problem, is_recorded)
        entry.request = asked
        if is_recorded:
            return self._requests.repeat(entry)
        self._requests.admit(entry, keys_in_order(self._domain, asked.session, asked.content))
        if asked.transaction in self.skipped_ahead or self.membership.is_skipped(asked.transaction):
            self._requests.skip(asked.transaction)
        return None

    def _admit_other(self, entry: Entry, is_recorded: bool) -> None:
        self.keys.advance(entry.time_us)
        try:
            if entry.event.type in (request.MEMBER, request.SNAPSHOT):
                return self._admit_barrier(entry)
            record = self._heed(entry)
        except (KeyError, TypeError, ValueError, AttributeError) as problem:
            return self._pass_over(entry, problem, is_recorded)
        return self._requests.repeat(entry) if is_recorded else self._requests.pass_over(entry, record)

    def _pass_over(self, entry: Entry, problem: Exception, is_recorded: bool) -> None:
        log.warning("event %s of type %s says nothing: %r", entry.event.id, entry.event.type, problem)
        if is_recorded:
            return self._requests.repeat(entry)
        return self._requests.pass_over(entry, entry.record("passed"))

    def _admit_barrier(self, entry: Entry) -> None:
        """A change of the membership, or a snapshot: it is recorded when everything before it is finished."""
        change = change_in(entry.event)
        if entry.event.type == request.SNAPSHOT:
            return self._admit_snapshot(entry, entry.event.data, change)
        assert change is not None
        record = self._changed(entry, change)
        self.has_joined = self.has_joined or (change.kind, change.reason) == ("join", self._start)

        def apply() -> Record:
            self._turned(change)
            return record

        entry.apply = apply
        return self._requests.admit(entry, None)

    def _admit_snapshot(self, entry: Entry, told: Any, taken: Change | None) -> None:
        """A snapshot that is wanted is taken in its turn; of one that was taken, the membership knows how old it is."""
        record = entry.record("passed")
        if taken is not None:
            record = self._changed(entry, taken)
        else:
            entry.work = self._snapshot(told)
        entry.apply = lambda: record
        self._requests.admit(entry, None)

    def _heed(self, entry: Entry) -> Record:
        """An event that waits for nobody: act by it, and record it."""
        told, kind = entry.event.data, entry.event.type
        change = change_in(entry.event)
        if change is not None:
            return self._changed(entry, change)
        if kind == request.SESSION:
            self._seen(told)
        given = given_in(entry.event) if kind == request.GIVEN else None
        for key, digest in given or ():
            self.keys.given(key, digest)
            if self.has_joined:
                self._requests.given(key, digest)
        return msgspec.structs.replace(entry.record("passed"), given=given)

    def _changed(self, entry: Entry, change: Change) -> Record:
        """Change the membership; the record, with the members after it."""
        for effect in self.membership.apply(entry.place, change):
            if isinstance(effect, Refused):
                log.info("place %d: %s of %s is refused: %s", entry.place, effect.kind, effect.who, effect.reason)
            self._heard(effect)
        return msgspec.structs.replace(entry.record("passed"), members=self.membership.encode())


def given_in(event: Received) -> list[tuple[str, bytes]]:
    """The keys and digests of answers that were given, in such an event. Errors as those of `change_in`."""
    return [(str(key), bytes.fromhex(digest)) for key, _, digest in event.data["given"]]


def change_in(event: Received) -> Change | None:
    """The change of the membership in an event; None for another event. KeyError, TypeError, ValueError or AttributeError for one
    that says nothing."""
    if event.type == request.MEMBER:
        return changes.decode(bytes(event.body))
    if event.type not in (request.SNAPSHOT, request.ENGINE, request.SKIP):
        return None
    told = event.data
    if event.type == request.SKIP:
        return Change("skip", str(told["server"]), transaction=str(told["transaction"]))
    if event.type == request.SNAPSHOT:
        return Change("snapshot", str(told["server"]), oldest=int(told["oldest"])) if "place" in told else None
    names = ("engine", "start", "address", "reply_to", "site", "local")
    change = {"kind": "engine", "tls": told.get("tls") is True} | {name: told.get(name, "") for name in names}
    return msgspec.convert(change, Change)
