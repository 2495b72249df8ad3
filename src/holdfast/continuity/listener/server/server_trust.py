"""Whether the state of a server is known: what a new connection tells, and what a lost one takes away (continuity rule 12).

    new connection ─▶ GET PROBE?transaction=NEWEST ─▶ {"start", "state", "last"} ─▶ server_verdict (`machines.doubt`)
    lost connection, and no probe ─────────────────────────────────────────────────▶ rebuild if it forgets, else unknown

NEWEST is the transaction that was answered last, below 400: a server that has its state has done it. The probe tells what it can:

    start    an id that changes when the server is started again
    state    done, running or unknown: what it knows of that transaction. "unknown" means that it has lost it
    last     the number of the last transaction that it has done; with order by domain it is NEWEST, or one in doubt after it

The last two count only with `tell_server`: else the server knows no numbers, and is asked without one.

A server whose state is unknown goes on by its policy: with `rebuild` it is rebuilt; else it is called on, and `domain status`
says so. A later probe that tells the newest as done makes it known again, and so does a rebuild. Before anything was answered
there is nothing to lose, and nothing is asked.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from urllib.parse import quote

import msgspec

from holdfast.continuity.answer import Answer
from holdfast.continuity.listener.server.server_connection import CallFailed
from holdfast.continuity.machines.doubt import Failure, LastDone, Policy, ProbeAnswer, server_verdict
from holdfast.continuity.request import Content

log = logging.getLogger("holdfast.continuity")


class _Told(msgspec.Struct, frozen=True):
    """What a probe says."""

    start: str | None = None
    state: ProbeAnswer | None = None
    last: str | None = None


class ServerTrust:
    def __init__(
        self,
        *,
        forgets: bool,
        policy: Policy,
        probe: str,
        is_told: bool,
        is_ordered: bool,
        newest: Callable[[], str],
        has_come_to: Callable[[str, str], bool],
        is_new: bool,
    ) -> None:
        """`is_told`: it gets the numbers of transactions. `is_ordered`: one request after the other, so that the last transaction
        says all. `newest`: the transaction that was answered last; "" for none. `has_come_to` tells whether a transaction is
        another one, or later. `is_new`: it was never called, or was just rebuilt."""
        self._forgets, self._policy, self._probe, self._is_ordered = forgets, policy, probe, is_ordered
        self._is_told = is_told
        self._newest = newest
        self._has_come_to = has_come_to
        self.start: str | None = None  # the id that the server told last
        self._has_answered = False  # since the listener was started, or the server rebuilt
        self._distrust: Callable[[str], None] = lambda reason: None
        self.unknown = "" if is_new or probe or forgets else "its listener was started again, and no probe tells what it has done"

    def when_lost(self, distrust: Callable[[str], None]) -> None:
        """`distrust` is told why the server must be rebuilt."""
        self._distrust = distrust

    def answered(self) -> None:
        """The server has answered a request."""
        self._has_answered = True

    def greeting(self) -> tuple[Content, Callable[[Answer], None]] | None:
        """What is asked first on a new connection, and who hears the answer; None for nothing."""
        newest = self._newest()
        if not self._probe or not (newest or self._forgets):
            return None
        asks = self._is_told and not self._forgets
        target = f"{self._probe}?transaction={quote(newest)}" if asks else self._probe
        return Content("GET", target, []), partial(self.greeted, newest)

    def greeted(self, newest: str, answer: Answer) -> None:
        """The probe has answered, which was asked for this transaction. CallFailed if the server is not to be called."""
        told = self._told(answer)
        before = self.start if self.start is not None or not self._forgets else told.start
        verdict = server_verdict(before, told.start, self._forgets, self._last_done(told, newest))
        self.start = told.start
        if verdict == "unknown":
            self._become_unknown("it was started again, or may have been, and its probe does not tell what it has done")
            if self._policy != "rebuild":
                return
        elif verdict != "rebuild":
            if verdict == "restarted":
                log.info("the server was started again, or may have been, and has done everything")
                self.unknown = ""
            return
        reason = "it forgets, and was started again" if self._forgets else "it has lost what it had answered, by its probe"
        self._distrust(reason if verdict == "rebuild" else self.unknown)
        raise CallFailed("refused", f"the server is to be rebuilt: {reason}")

    def _told(self, answer: Answer) -> _Told:
        try:
            told = msgspec.json.decode(answer.body, type=_Told)
        except msgspec.DecodeError as problem:
            if self._forgets:
                raise CallFailed("cut", f"it tells no start id: {problem}") from problem
            return _Told()
        if self._forgets and told.start is None:
            raise CallFailed("cut", "it tells no start id")
        return told if answer.head.status == 200 or self._forgets else _Told()

    def _last_done(self, told: _Told, newest: str) -> LastDone | None:
        """Whether it has what was done when it was asked. Other requests may have been done since."""
        if self._forgets or not self._is_told:
            return None
        if told.state in ("done", "unknown"):
            return "reached" if told.state == "done" else "earlier"
        if told.last is not None and self._is_ordered:
            return "reached" if self._has_come_to(told.last, newest) else "earlier"
        return None

    def lost(self, failure: Failure) -> bool:
        """A call failed. Whether the server is to be rebuilt because its connection was lost."""
        if self._probe or failure == "timed out" or not self._has_answered:
            return False
        if server_verdict(None, None, self._forgets, None) == "rebuild":
            return True
        self._become_unknown("its connection was lost, and no probe tells what it has done since")
        return self._policy == "rebuild"

    def _become_unknown(self, reason: str) -> None:
        if not self.unknown:
            log.warning("the state of the server is unknown: %s; give its listener a --probe that tells it", reason)
        self.unknown = reason
