"""Effects: an order at the exchange, a payment, a mail. Several servers ask for each; it is carried out once (C10).

    server ──ask──▶ listener: Attribution        which transaction asks, and the how-many-eth time? else refused (31)
                       │
                       ▼ effects queue           one recipient at a time
                    Effects                      carry out, wait, give the result, refuse (continuity rule 5)

An effect is known by its transaction, the digest of the ask, and which of that digest it is: so all servers mean the same one.

    asked by                                carried out
    a trace, or a rule on the answer        at once: it certainly belongs to its transaction
    turn                                    when two current servers have asked; one, if only one is current
    a shadow, a server that is not current  never; it gets the result, if there is one in time
    a server in a rebuild                   never; without a result the far side is asked, or else the rebuild stops

Results live as long as history (`forget_up_to`): up to a place that every server has finished, and that no rebuild replays,
nobody asks again. An ask from before it is refused, never carried out.

An ask that was under way when its recipient was killed is looked up at the far side before it is carried out again (32).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from hashlib import blake2b
from typing import Literal, NamedTuple

import msgspec

from holdfast.continuity.answer import Head
from holdfast.continuity.domain import EffectRule
from holdfast.continuity.machines.routes import fitting
from holdfast.continuity.request import DIGEST_BYTES, Headers

How = Literal["trace", "answer", "turn"]
_TRACEPARENT = re.compile(rb"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}(?:-.*)?\Z")
# Equal asks of one transaction; a server in a loop is stopped.
ASKS_MAX = 10_000


class Identity(msgspec.Struct, frozen=True, array_like=True):
    """Which effect."""

    transaction: str
    digest: bytes  # of the ask
    number: int  # 1 for the first ask of this digest in its transaction

    @property
    def key(self) -> str:
        """The key with which it is carried out: the far side, if it knows keys, does it once."""
        return f"{self.transaction}.{self.digest.hex()}.{self.number}"


class Result(msgspec.Struct, frozen=True, array_like=True):
    """The answer of the far side; every server gets the same."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes = b""


# --- at the listener: which transaction asks -----------------------------------------------------------------------------


class Attributed(NamedTuple):
    transaction: str
    how: How


class Unattributed(NamedTuple):
    """Nobody knows for which request this is: refuse it."""

    reason: str


def trace_of(transaction: str) -> str:
    """The trace id with which a server is called, and which its own calls carry on."""
    return blake2b(transaction.encode(), digest_size=16, person=b"holdfast trace").hexdigest()


def trace_in(headers: Headers) -> str:
    """The trace id in the headers of a request; "" if they have none."""
    found = next((_TRACEPARENT.match(value) for name, value in headers if name == b"traceparent"), None)
    return found[1].decode() if found is not None else ""


def attribute(traceparent: bytes, running: Collection[str], is_domain_order: bool) -> Attributed | Unattributed:
    """Find the transaction that asks, among those that run at this server. A trace wins over turn (31)."""
    found = _TRACEPARENT.match(traceparent)
    if found is not None:
        traced = found[1].decode()
        transaction = next((each for each in running if trace_of(each) == traced), None)
        if transaction is not None:
            return Attributed(transaction, "trace")
    if not is_domain_order:
        return Unattributed("its traceparent names no running request; without the order of the domain nothing else tells")
    if len(running) != 1:
        return Unattributed("its traceparent names no running request, and it is no request's turn")
    return Attributed(next(iter(running)), "turn")


def digest_of_ask(method: str, url: str, body: bytes) -> bytes:
    digest = blake2b(digest_size=DIGEST_BYTES)
    for part in (method.encode(), url.encode("utf-8", "surrogatepass"), body):
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.digest()


class Numbering:
    """Numbers the asks of one server: the n-th of its digest in its transaction."""

    def __init__(self) -> None:
        self._counts: dict[str, dict[bytes, int]] = {}

    def identity(self, transaction: str, digest: bytes) -> Identity | Unattributed:
        counts = self._counts.setdefault(transaction, {})
        if sum(counts.values()) >= ASKS_MAX:
            return Unattributed(f"transaction {transaction} has asked for {ASKS_MAX:,} effects; the server may be in a loop")
        counts[digest] = counts.get(digest, 0) + 1
        return Identity(transaction, digest, counts[digest])

    def finish(self, transaction: str) -> None:
        """The call has ended. A call that is made again is numbered from 1 again, and so gets the same results."""
        self._counts.pop(transaction, None)


def asked_by_answer(rules: Iterable[EffectRule], target: str, head: Head) -> Iterator[tuple[str, bytes]]:
    """The effects that an answer asks for: names of rules, and values of their headers."""
    path = target.partition("?")[0].encode("utf-8", "surrogatepass")
    for rule in rules:
        if head.status < 400 and fitting(rule.path, "effects")(path) is not None:
            wanted = rule.header.lower().encode()
            yield from ((rule.name, value) for name, value in head.headers if name == wanted)


# --- at the recipient of the effects queue: when it is carried out -------------------------------------------------------


class CarryOut(NamedTuple):
    identity: Identity


class LookUp(NamedTuple):
    """Ask the far side whether it was done, then call `looked_up`."""

    identity: Identity


class Give(NamedTuple):
    """The server's ask is answered with this result; then its ask is confirmed."""

    server: str
    identity: Identity
    result: Result


class Refuse(NamedTuple):
    server: str
    identity: Identity
    reason: str


class StopRebuild(NamedTuple):
    """Nobody can say what this server was told then: an operator decides."""

    server: str
    identity: Identity
    reason: str


Out = CarryOut | LookUp | Give | Refuse | StopRebuild


class _Effect:
    """An effect without a result."""

    __slots__ = ("asked", "is_certain", "rebuilding", "state", "until")

    def __init__(self, until: float) -> None:
        self.asked: dict[str, None] = {}  # servers that wait for the result, in order
        self.rebuilding: dict[str, None] = {}
        self.is_certain = False  # a current server asked, and it belongs to its transaction for certain
        self.state: Literal["waiting", "looking", "under way"] = "waiting"
        self.until = until


class Effects:
    """All effects of a domain. `current` are the servers that count: neither shadows nor servers that are behind."""

    def __init__(self, current: Iterable[str], ask_wait: float = 30.0) -> None:
        self._current = dict.fromkeys(current)
        self._ask_wait = ask_wait
        self._open: dict[Identity, _Effect] = {}
        self._results: dict[str, dict[Identity, Result]] = {}  # by transaction
        self._places: dict[str, int] = {}  # of transactions with a result or an ask, as far as they are known
        self.forgotten_up_to = 0  # a place

    def ask(self, server: str, identity: Identity, how: How, now: float, is_replay: bool = False, place: int = 0) -> list[Out]:
        """A server asks, in the request at this place. The same ask may come again: from a listener that was restarted, or from
        the queue."""
        result = self.result_of(identity)
        if result is not None:
            return [Give(server, identity, result)]
        if 0 < place <= self.forgotten_up_to:
            reason = f"the history has forgotten its request, at place {place}"
            return [StopRebuild(server, identity, reason) if is_replay else Refuse(server, identity, reason)]
        self._note(identity, place)
        effect = self._open.setdefault(identity, _Effect(now + self._ask_wait))
        if is_replay:
            effect.rebuilding[server] = None
        else:
            effect.asked[server] = None
            effect.is_certain |= how != "turn" and server in self._current
        return self._go_on(identity, effect)

    def change(self, current: Iterable[str]) -> list[Out]:
        """The membership has changed."""
        self._current = dict.fromkeys(current)
        return [out for identity, effect in list(self._open.items()) for out in self._go_on(identity, effect)]

    def result(self, identity: Identity, result: Result, place: int = 0) -> list[Out]:
        """A result was read, or is durable. The first one counts."""
        self._note(identity, place)
        kept = self._results.setdefault(identity.transaction, {}).setdefault(identity, result)
        effect = self._open.pop(identity, None)
        return [Give(server, identity, kept) for server in (*effect.asked, *effect.rebuilding)] if effect is not None else []

    def interrupted(self, identity: Identity) -> list[Out]:
        """It was under way when its recipient ended, and there is no result: nobody knows whether it was done."""
        effect = self._open.get(identity)
        if effect is None or effect.state == "looking":
            return []
        effect.state = "looking"
        return [LookUp(identity)]

    def looked_up(self, identity: Identity, found: Result | Literal["not done", "cannot tell"]) -> list[Out]:
        """The far side has answered. If it cannot tell, it is not done again: at most once, rather than twice."""
        if isinstance(found, Result):
            return self.result(identity, found)
        effect = self._open.get(identity)
        if effect is None:
            return []
        reason = f"the effect {identity.key} has no result, and the far side has none"
        out: list[Out] = [StopRebuild(server, identity, reason) for server in effect.rebuilding]
        effect.rebuilding.clear()
        effect.state = "waiting"
        if found == "cannot tell":
            out += (Refuse(server, identity, "nobody can tell whether it was carried out") for server in effect.asked)
            effect.asked.clear()
        if not effect.asked:
            del self._open[identity]
        return out + self._go_on(identity, effect)

    def failed(self, identity: Identity, reason: str) -> list[Out]:
        """It was certainly not done, and is not tried any longer. Whoever asks again begins anew."""
        effect = self._open.pop(identity, None)
        if effect is None:
            return []
        stopped: list[Out] = [StopRebuild(server, identity, reason) for server in effect.rebuilding]
        return stopped + [Refuse(server, identity, reason) for server in effect.asked]

    def tick(self, now: float) -> list[Out]:
        """Refuse those that have waited too long: shadows, and servers that ask alone."""
        over = [(identity, each) for identity, each in self._open.items() if each.state == "waiting" and now >= each.until]
        for identity, _ in over:
            del self._open[identity]
        reason = "no second current server has asked for it in time"
        return [Refuse(server, identity, reason) for identity, effect in over for server in effect.asked]

    @property
    def wake_at(self) -> float | None:
        return min((effect.until for effect in self._open.values() if effect.state == "waiting"), default=None)

    def result_of(self, identity: Identity) -> Result | None:
        return self._results.get(identity.transaction, _NO_RESULTS).get(identity)

    def is_open(self, identity: Identity) -> bool:
        """It has no result, and somebody waits for one."""
        return identity in self._open

    def forget_up_to(self, place: int) -> None:
        """History has forgotten everything up to a place: nobody asks for its effects again."""
        self.forgotten_up_to = max(self.forgotten_up_to, place)
        open_ones = {identity.transaction for identity in self._open}
        for transaction, at in list(self._places.items()):
            if at <= self.forgotten_up_to and transaction not in open_ones:
                del self._places[transaction]
                self._results.pop(transaction, None)

    def place_of(self, identity: Identity) -> int:
        """The place of its request; 0 if it is not known."""
        return self._places.get(identity.transaction, 0)

    def _note(self, identity: Identity, place: int) -> None:
        if place:
            self._places.setdefault(identity.transaction, place)

    @property
    def open(self) -> int:
        """Effects that somebody waits for."""
        return len(self._open)

    @property
    def results(self) -> int:
        """Results that are kept."""
        return sum(map(len, self._results.values()))

    def _go_on(self, identity: Identity, effect: _Effect) -> list[Out]:
        if effect.state != "waiting":
            return []
        votes = sum(server in self._current for server in effect.asked)
        if votes and (effect.is_certain or votes >= min(2, len(self._current))):
            effect.state = "under way"
            return [CarryOut(identity)]
        if effect.rebuilding:
            effect.state = "looking"
            return [LookUp(identity)]
        return []


def traceparent_of(transaction: str) -> str:
    """The `traceparent` with which a server is called for a transaction."""
    trace = trace_of(transaction)
    return f"00-{trace}-{trace[:16]}-01"


_NO_RESULTS: Mapping[Identity, Result] = {}
