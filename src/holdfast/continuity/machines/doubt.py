"""Doubt: calls of which nobody knows whether the server has done them, and what to do about each.

A place in doubt holds its keys: nothing follows until it is resolved (continuity rule 3).

After a restart of the listener (`places_in_doubt`). The mark says which places it had reserved, and on which boot. A record in
the answer file is proof of an answer. `begun` are the calls that the listener noted before it made them, without a sync: they
outlive its process, not its machine.

    boot    begun   order     in doubt, among reserved places without a record
    same    noted   any       those that had begun
    same    -       domain    the first: the next was not called before it was answered
    same    -       session   all
    same    -       key       all
    other   any     any       all: records that were not synced are lost, and with them the proof

A call that fails (`Doubt.failed`). To be refused is to be not connected: nothing was sent. The others are in doubt.

    failure     deaths    policy    what to do
    refused     any       any       resend       certainly not called
    reset       second    any       skip         it kills the server: ask all to pass over it (continuity rule 14)
    cut         second    any       skip
    reset       first     resend    resend       the server knows keys
    reset       first     ask       ask          the probe is asked for this number
    reset       first     rebuild   rebuild
    cut         first     resend    resend
    cut         first     ask       ask
    cut         first     rebuild   rebuild
    timed out   any       resend    resend
    timed out   any       ask       ask
    timed out   any       rebuild   rebuild

The answer of the probe for a number in doubt (`Doubt.probed`). "Unknown" may be said of a call that is still on its way,
until the call's time is over or the server was started again.

    answer      time      start     what to do
    done        any       any       done         finish it, without an answer
    running     any       any       wait         and ask again
    unknown     left      same      wait
    unknown     left      -         wait
    unknown     left      other     resend       what was on its way is gone
    unknown     over      any       resend

A new connection (`server_verdict`), by the start id that the probe tells, and by the last request that it tells to have done:
with order by domain the last transaction number, else whether it has done the newest that was recorded (continuity rule 12).

    start    forgets    last done    verdict
    any      any        earlier      rebuild      it has lost what it had answered
    same     any        reached      same
    same     any        -            same
    other    yes        reached      rebuild      after every restart
    other    yes        -            rebuild
    other    no         reached      restarted    and has everything
    other    no         -            unknown      said so; goes on by its policy
    -        yes        reached      rebuild      it may have been started again
    -        yes        -            rebuild
    -        no         reached      restarted
    -        no         -            unknown

Pure: times are seconds of the shell's clock, and never go back.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Literal, NamedTuple

Policy = Literal["resend", "ask", "rebuild"]
Failure = Literal["refused", "reset", "timed out", "cut"]
ProbeAnswer = Literal["done", "running", "unknown"]
LastDone = Literal["reached", "earlier"]
Action = Literal["resend", "ask", "wait", "done", "rebuild", "skip"]
Verdict = Literal["same", "restarted", "rebuild", "unknown"]

# A second death rules out a server that was stopped by chance in this call; each further one costs a restart of every server.
DEATHS_MAX = 2
# The first pause is short: most failures are those of a server that is being started again. The last bounds the wait after it.
PAUSE_MIN_SECONDS = 0.05
PAUSE_MAX_SECONDS = 2.0


class Decision(NamedTuple):
    """What to do about a place, and when.

    resend     call it again, with its key
    ask        ask the probe for its number; tell `Doubt.probed`
    wait       ask the probe again
    done       the server has done it: finish the place, without an answer
    rebuild    the server is taken back to a snapshot; this is said once, for all places
    skip       publish that this server died of it, and call it no more; all servers must say so
    """

    place: int
    action: Action
    at: float = 0.0


# --- after a restart of the listener ---------------------------------------------------------------------------------


def places_in_doubt(
    marked_up_to: int,
    finished: int,
    records: Collection[int],
    same_boot: bool,
    order: Literal["domain", "session", "key"] = "domain",
    begun: Collection[int] | None = None,
) -> list[int]:
    """The places in doubt after a restart, in order.

    `finished` is the place up to which everything has a record, `records` are the places after it that have one. A place that
    the listener had not received before is not in doubt; only the shell knows.
    """
    open_places = [place for place in range(finished + 1, marked_up_to + 1) if place not in records]
    if not same_boot:
        return open_places
    if begun is not None:
        return [place for place in open_places if place in begun]
    return open_places[:1] if order == "domain" else open_places


def judge(
    marked_up_to: int,
    finished: int,
    records: Collection[int],
    same_boot: bool,
    policy: Policy,
    verdict: Verdict = "same",
    order: Literal["domain", "session", "key"] = "domain",
    begun: Collection[int] | None = None,
) -> list[Decision]:
    """The decisions after a restart of the listener; one `rebuild` stands for all places, and comes alone."""
    places = places_in_doubt(marked_up_to, finished, records, same_boot, order, begun)
    if verdict == "rebuild" or (places and policy == "rebuild"):
        return [Decision(places[0] if places else finished + 1, "rebuild")]
    return [Decision(place, policy) for place in places]


def server_verdict(start_before: str | None, start_now: str | None, forgets: bool, last_done: LastDone | None) -> Verdict:
    """What a new connection tells of a server that was called before. A start id that was not told is None."""
    if last_done == "earlier":
        return "rebuild"
    if start_now is not None and start_now == start_before:
        return "same"
    if forgets:
        return "rebuild"
    return "restarted" if last_done == "reached" else "unknown"


# --- calls under way -------------------------------------------------------------------------------------------------


class _Call:
    __slots__ = ("attempts", "began", "deaths", "is_in_doubt", "is_skipped", "start")

    def __init__(self, deaths: int) -> None:
        self.deaths = deaths
        self.attempts = 0  # to resolve it
        self.began = 0.0
        self.start: str | None = None  # the start id of the server when the call began
        self.is_in_doubt = False
        self.is_skipped = False


class Doubt:
    """The calls of one server that are under way or in doubt. Late answers of a probe are passed over.

    `deaths` are those of earlier lives, by place.
    """

    def __init__(self, policy: Policy, call_timeout: float, deaths: Mapping[int, int] | None = None) -> None:
        self.policy = policy
        self.call_timeout = call_timeout
        self._calls: dict[int, _Call] = {place: _Call(count) for place, count in (deaths or {}).items()}

    @property
    def in_doubt(self) -> list[int]:
        return sorted(place for place, call in self._calls.items() if call.is_in_doubt)

    @property
    def dying(self) -> list[int]:
        """The places of which the server died too often: they wait until all say so, and they are skipped."""
        return sorted(place for place, call in self._calls.items() if call.is_skipped)

    @property
    def deaths(self) -> dict[int, int]:
        """How often the server died of a place that is not finished, for the store."""
        return {place: call.deaths for place, call in sorted(self._calls.items()) if call.deaths}

    def began(self, place: int, now: float, start: str | None = None) -> None:
        """A call begins, or begins again, at a server with this start id."""
        call = self._calls.setdefault(place, _Call(0))
        call.began, call.start, call.is_in_doubt = now, start, False

    def finished(self, place: int) -> None:
        """A place is answered, skipped or resolved: nothing is known of it any more."""
        self._calls.pop(place, None)

    def restored(self, places: Sequence[int], now: float, has_died: bool = False) -> list[Decision]:
        """Places were in doubt when the listener was started; their calls may have begun just before.

        `has_died`: the server lived in the listener's process, and died with it.
        """
        decisions = []
        for place in places:
            self.began(place, now)
            decisions.append(self._in_doubt(place, now, has_died))
        return decisions

    def failed(self, place: int, failure: Failure, now: float) -> Decision:
        """A call failed."""
        if failure == "refused":
            return Decision(place, "resend", now + self._pause(self._calls.setdefault(place, _Call(0))))
        return self._in_doubt(place, now, has_died=failure in ("reset", "cut"))

    def _in_doubt(self, place: int, now: float, has_died: bool) -> Decision:
        call = self._calls.setdefault(place, _Call(0))
        call.is_in_doubt = True
        call.deaths += has_died
        if call.is_skipped or (has_died and call.deaths >= DEATHS_MAX):
            call.is_skipped = True
            return Decision(place, "skip", now)
        pause = self._pause(call) if self.policy == "resend" else 0.0
        return Decision(place, self.policy, now + pause)

    def probed(self, place: int, answer: ProbeAnswer, now: float, start: str | None = None) -> Decision | None:
        """The probe answered for a place, from a server with this start id. None if the place is not in doubt any more."""
        call = self._calls.get(place)
        if call is None or not call.is_in_doubt:
            return None
        if answer == "done":
            self.finished(place)
            return Decision(place, "done", now)
        if call.is_skipped:
            return Decision(place, "skip", now)
        over_at = call.began + self.call_timeout
        if answer == "unknown" and (now >= over_at or _differ(call.start, start)):
            return Decision(place, "resend", now)
        ask_at = now + self._pause(call)
        return Decision(place, "wait", min(ask_at, over_at) if now < over_at else ask_at)

    def answered_elsewhere(self, place: int) -> Decision | None:
        """Another server's answer to a place was given: one that died of it twice cannot have it skipped, and is rebuilt."""
        call = self._calls.get(place)
        return Decision(place, "rebuild") if call is not None and call.is_skipped else None

    def _pause(self, call: _Call) -> float:
        call.attempts += 1
        return float(min(PAUSE_MAX_SECONDS, PAUSE_MIN_SECONDS * 2.0 ** min(call.attempts - 1, 30)))


def _differ(before: str | None, now: str | None) -> bool:
    return before is not None and now is not None and before != now
