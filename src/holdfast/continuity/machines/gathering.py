"""Gathering: the answers of the servers to one transaction, and which of them the client gets.

                 an answer below 500; two equal ones if `agreed`; the best error when nothing better may come
       waiting ────────────────────────────────────────────────────────────────▶ streaming ──▶ over ──▶ decided
          └── no answer in time, a clash, nobody can answer: Error ───────────────────────────▶ over

    waiting     nothing was said to the client. Parts of all servers are held, bounded
    streaming   one server's answer goes to the client. Of others only length and digest are kept. If the server is lost, another
                goes on where it stopped, if status, length and the digest of the beginning agree (20); if none can, it is cut
    over        the client has its answer, or its error. Other answers still come, to be compared
    decided     all have answered, or the time for it is over

Errors (5, continuity rule 15): a status of 500 and more wins when no other server may answer, or after `error_wait`. A call that
failed has no answer and wins nothing: it is 502 or 504 when nobody may answer any more. A server whose link is lost may answer
for another `error_wait`, because its listener dials again and its store has the answer.

Missing parts are asked for again (`Resume`), when a gap is seen and every `part_wait`. This module reads no clock: the shell says
`now`, and calls `tick` at `wake_at`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

from holdfast.continuity.answer import Head, Part
from holdfast.continuity.answer_body import Body
from holdfast.continuity.machines.comparison import judge
from holdfast.continuity.machines.gathered_server import GatheredServer, agreed_of, error_of, first_of, is_impossible

Kind = Literal["wrong", "late", "silent", "link lost", "in doubt"]


class Begin(msgspec.Struct, frozen=True, gc=False):
    """The answer begins: status and headers. `replayed`: it is the stored answer of a known key (9)."""

    head: Head
    replayed: bool
    server: str


class Chunk(msgspec.Struct, frozen=True, gc=False):
    body: bytes


class End(msgspec.Struct, frozen=True, gc=False):
    """The answer is whole. `server` and `comparison` are what `given` records (continuity rule 4)."""

    server: str = ""
    comparison: bytes = b""


class Cut(msgspec.Struct, frozen=True, gc=False):
    """Nobody can go on with the body: cut the client's connection. Its retry gets a whole answer."""

    reason: str


class Resume(msgspec.Struct, frozen=True, gc=False):
    """Ask the server's listener for its answer again, from this byte of the body on; from 0 the head is sent, too."""

    server: str
    offset: int


class Error(msgspec.Struct, frozen=True, gc=False):
    """There is no answer to give."""

    status: int
    reason: str


class Decided(msgspec.Struct, frozen=True, gc=False):
    """All that was learnt; the gathering can be forgotten.

    digests   what is compared, by server, for each that answered
    given     the server whose answer the client has; "" for an error
    kinds     what is held against servers (26); those with nothing against them are not in it
    named     servers that differ where nobody has a majority: told, not removed
    failed    servers that answered 5xx where another answer was given: not current until rebuilt (continuity rule 4)
    """

    digests: dict[str, bytes]
    given: str
    kinds: dict[str, Kind]
    named: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()


Out = Begin | Chunk | End | Cut | Resume | Error | Decided


class Gathering:
    """The answers to one transaction. `shadows` are compared and never answer (17)."""

    __slots__ = (
        "_answer_timeout", "_ask_at", "_asked", "_body", "_compare_wait", "_error_at", "_error_wait", "_give_up_at", "_head",
        "_is_first", "_over_at", "_part_wait", "_phase", "_servers", "_winner", "transaction",
    )  # fmt: skip

    def __init__(
        self,
        transaction: str,
        expected: Iterable[str],
        answer_mode: Literal["first", "agreed"] = "first",
        error_wait: float = 2.0,
        now: float = 0.0,
        *,
        answer_timeout: float = 30.0,
        part_wait: float = 1.0,
        compare_wait: float = 30.0,
        shadows: Iterable[str] = (),
    ) -> None:
        self.transaction = transaction
        self._servers = {server: GatheredServer(server) for server in expected}
        for server in shadows:
            self._servers.setdefault(server, GatheredServer(server, is_shadow=True))
        self._is_first = answer_mode == "first"
        self._error_wait = error_wait
        self._answer_timeout = answer_timeout
        self._part_wait = part_wait
        self._compare_wait = compare_wait
        self._phase: Literal["waiting", "streaming", "over", "decided"] = "waiting"
        self._winner: GatheredServer | None = None
        self._head: Head | None = None
        self._body: Body | None = None
        self._asked: tuple[str, int] | None = None
        self._ask_at = now + part_wait
        self._error_at: float | None = None  # when a held 5xx wins
        self._give_up_at = now + answer_timeout
        self._over_at = 0.0

    # --- reports of the shell ------------------------------------------------------------------------------------------

    def part(self, server: str, part: Part, now: float) -> list[Out]:
        """A part of this server's answer came."""
        source = self._servers.get(server)
        if source is None or source.state == "removed" or self._phase == "decided":
            return []
        if (
            self._phase == "waiting"
            and self._is_first
            and part.is_last
            and not part.offset
            and part.head is not None
            and part.head.status < 500
            and not source.is_shadow
            and part.outcome in ("answered", "replayed")
            and (part.head.length in (-1, len(part.body)) or not part.body)
        ):
            return self._give_whole(source, part, part.head, now)
        out: list[Out] = []
        if self._phase == "over" and part.is_last and not part.offset and part.head is not None and source.state == "open":
            source.note(part, now, is_kept=False)  # the usual case again: the answer of another, to be compared
            self._decide(now, out)
            return out
        is_kept = self._phase == "waiting" or (self._phase == "streaming" and self._winner in (None, source))
        source.note(part, now, is_kept and not source.is_shadow)
        self._go_on(now, out)
        return out

    def lost(self, server: str, now: float, kind: Literal["link lost", "removed"] = "link lost") -> list[Out]:
        """The link to a server was lost, or (`removed`) it is not current any more: nothing it says counts from now on."""
        source = self._servers.get(server)
        if source is None or source.state == "removed":
            return []
        out: list[Out] = []
        source.lose(now, kind)
        self._go_on(now, out)
        return out

    def back(self, server: str, now: float) -> list[Out]:
        """The link to a server is there again: ask for what it may have said meanwhile. It may have said nothing yet."""
        source = self._servers.get(server)
        if source is None or source.state not in ("lost", "expired") or self.is_told:
            return []
        source.state = "open"
        self._asked = (server, self._body.offset if self._body is not None and source.head is not None else 0)
        out: list[Out] = [Resume(*self._asked)]
        self._go_on(now, out)
        return out

    def expect(self, server: str) -> None:
        """A server became current after the request was sent: it gets the request, too, and may answer."""
        self._servers.setdefault(server, GatheredServer(server))

    def tick(self, now: float) -> list[Out]:
        """Time has passed."""
        out: list[Out] = []
        if self._phase in ("waiting", "streaming") and now >= self._give_up_at:
            self._give_up(now, out)
        self._go_on(now, out)
        if self._phase in ("waiting", "streaming") and now >= self._ask_at:
            self._ask_again(now, out)
        return out

    @property
    def wake_at(self) -> float | None:
        """When `tick` is due; None when everything is decided."""
        if self._phase == "decided":
            return None
        earliest = self._over_at + self._compare_wait if self._phase == "over" else self._give_up_at
        for source in self._servers.values():
            if source.state == "lost":
                earliest = min(earliest, source.since + self._error_wait)
            if self._phase != "over" and (source is self._winner or source.is_without_head):
                earliest = min(earliest, self._ask_at)
        is_error_held = self._error_at is not None and self._phase == "waiting" and self._is_first
        return min(earliest, self._error_at or 0.0) if is_error_held else earliest

    @property
    def is_told(self) -> bool:
        """Whether the client has its answer or its error."""
        return self._phase in ("over", "decided")

    @property
    def is_decided(self) -> bool:
        return self._phase == "decided"

    # --- choosing ------------------------------------------------------------------------------------------------------

    def _give_whole(self, source: GatheredServer, part: Part, head: Head, now: float) -> list[Out]:
        """The usual case: a whole answer in one part, and it is the first."""
        source.end(part, head, now)
        out: list[Out] = [Begin(head, part.outcome == "replayed", source.server)]
        if part.body:
            out.append(Chunk(part.body))
        out.append(End(source.server, part.comparison))
        self._winner = source
        self._be_over(now)
        self._decide(now, out)
        return out

    def _go_on(self, now: float, out: list[Out]) -> None:
        for source in self._servers.values():
            source.expire(now, self._error_wait)
        if self._phase == "waiting":
            self._choose(now, out)
        if self._phase == "streaming":
            self._advance(now, out)
        if self._phase == "over":
            self._decide(now, out)

    def _electable(self) -> list[GatheredServer]:
        return [source for source in self._servers.values() if not source.is_shadow and source.state != "removed"]

    def _choose(self, now: float, out: list[Out]) -> None:
        electable = self._electable()
        if any(source.state == "clash" for source in electable):
            self._fail(422, "the key is known with another request or other credentials", now, out)
            return
        is_first = self._is_first or len(electable) == 1
        best = first_of(electable) if is_first else agreed_of(electable)
        errors = [source for source in electable if source.has_answer and source.is_error]
        if not errors:
            self._error_at = None
        elif self._error_at is None:
            self._error_at = now + self._error_wait
        if best is None and self._error_at is not None and is_first and now >= self._error_at:
            best = errors[0]
        pending = sum(source.may_answer for source in electable)
        if best is None and (not pending or (not is_first and is_impossible(electable, pending))):
            best = (errors[0] if errors else None) if is_first else agreed_of(errors, is_error=True)
            if best is None:
                self._fail(*error_of(electable, is_first), now, out)
        if best is not None:
            self._elect(best, now, out)

    def _elect(self, source: GatheredServer, now: float, out: list[Out]) -> None:
        assert source.head is not None, "a server without a head is not chosen"
        self._phase = "streaming"
        self._winner = source
        self._head = source.head
        self._body = Body()
        self._progress(now)
        for other in self._servers.values():
            if other is not source:
                other.forget_bodies()
        out.append(Begin(source.head, source.is_replayed, source.server))

    # --- streaming -----------------------------------------------------------------------------------------------------

    def _advance(self, now: float, out: list[Out]) -> None:
        """Hand on what is there; when the winner cannot go on, let another do it, or cut the answer."""
        while self._phase == "streaming":
            if self._winner is None and not self._succeed(now, out):
                return
            assert self._winner is not None, "a winner was found"
            if self._drain(self._winner, now, out):
                return
            self._winner = None

    def _succeed(self, now: float, out: list[Out]) -> bool:
        """Find a server that can go on. Without one that may come, cut."""
        assert self._head is not None, "it has begun"
        candidates = [source for source in self._electable() if source.agrees_with(self._head)]
        self._winner = next((source for source in candidates if source.has_answer), None)
        if self._winner is not None:
            self._progress(now)
        elif not any(source.may_answer for source in candidates):
            out.append(Cut("no other server has an answer that begins like this one"))
            self._be_over(now)
        return self._winner is not None

    def _drain(self, winner: GatheredServer, now: float, out: list[Out]) -> bool:
        """Hand on the winner's parts in order; False if it cannot go on."""
        assert self._body is not None and self._head is not None, "it has begun"
        while (part := winner.held.take(self._body.offset)) is not None:
            new = self._body.extend(part, self._head.length)
            if new is None:
                winner.is_refuted = True
                return False
            self._progress(now)
            if new:
                out.append(Chunk(new))
            if part.is_last:
                out.append(End(winner.server, winner.comparison))
                self._be_over(now)
                return True
        if not winner.has_answer:
            return False
        if winner.has_sent_more_than(self._body.offset):
            self._ask(winner, self._body.offset, out)
        return True

    def _progress(self, now: float) -> None:
        self._ask_at = now + self._part_wait
        self._give_up_at = now + self._answer_timeout

    def _ask(self, source: GatheredServer, offset: int, out: list[Out]) -> None:
        """Ask once for what is missing; `_ask_again` repeats it."""
        if self._asked != (source.server, offset):
            self._asked = (source.server, offset)
            out.append(Resume(source.server, offset))

    def _ask_again(self, now: float, out: list[Out]) -> None:
        self._ask_at = now + self._part_wait
        if self._winner is not None and self._body is not None:
            out.append(Resume(self._winner.server, self._body.offset))
        elif self._phase == "waiting":
            out += (Resume(source.server, 0) for source in self._servers.values() if source.is_without_head)

    # --- the end -------------------------------------------------------------------------------------------------------

    def _give_up(self, now: float, out: list[Out]) -> None:
        if self._phase == "waiting":
            self._fail(504, "no server has answered in time", now, out)
            return
        if self._winner is not None:
            self._winner.fail("it went silent in the middle of its answer", now)
            self._advance(now, out)
        if self._phase == "streaming" and self._winner is None:
            out.append(Cut("no other server went on with the answer in time"))
            self._be_over(now)

    def _fail(self, status: int, reason: str, now: float, out: list[Out]) -> None:
        out.append(Error(status, reason))
        self._winner = None
        self._be_over(now)

    def _be_over(self, now: float) -> None:
        self._phase = "over"
        self._over_at = now
        for source in self._servers.values():
            source.forget_bodies()

    def _decide(self, now: float, out: list[Out]) -> None:
        present = [source for source in self._servers.values() if source.state != "removed"]
        if now < self._over_at + self._compare_wait and any(source.state in ("open", "lost") for source in present):
            return
        self._phase = "decided"
        out.append(_decision(present, self._winner, self._over_at + self._error_wait))


def _decision(present: list[GatheredServer], winner: GatheredServer | None, late_after: float) -> Decided:
    if winner is not None and winner.comparison and not winner.is_error and _are_alike(present, winner.comparison, late_after):
        return Decided({source.server: winner.comparison for source in present}, winner.server, {})
    digests = {source.server: source.comparison for source in present if source.state == "whole" and source.comparison}
    failed: tuple[str, ...] = ()
    if winner is not None and not winner.is_error:
        failed = tuple(source.server for source in present if source.state == "whole" and source.is_error)
    voters = [source.server for source in present if not source.is_shadow and source.server not in failed]
    verdict = judge({server: digests[server] for server in voters if server in digests}, voters)
    kinds: dict[str, Kind] = {}
    for source in present:
        is_wrong = source.server in failed or (verdict.kind == "wrong" and source.server in verdict.wrong)
        if winner is not None and source.is_shadow and source.state == "whole":  # a shadow has no vote
            is_wrong |= source.comparison != winner.comparison
        kind: Kind | None = "wrong" if is_wrong else source.fault(late_after)
        if kind is not None:
            kinds[source.server] = kind
    named = tuple(server for server in verdict.wrong if server not in kinds) if verdict.kind == "undecided" else ()
    return Decided(digests, winner.server if winner is not None else "", kinds, named, failed)


def _are_alike(present: list[GatheredServer], comparison: bytes, late_after: float) -> bool:
    """The usual case: all have answered, in time, and alike."""
    return all(each.state == "whole" and each.comparison == comparison and each.since <= late_after for each in present)
