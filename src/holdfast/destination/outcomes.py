"""Outcomes: what became of events, by their positions: for a program that must know that others have finished.

    waiting     somebody who counts has not decided; or the batch is not placed yet
    dead        nobody waits for it any more, and somebody gave it up: the first death counts, with its code and reason
    nobody      nobody who counts now was there when it was placed
    confirmed   all others

Who counts: the queue itself; of a topic its durable subscriptions, those of patterns too. A subscription that came later has none
of these events, one that was deleted wants no more, and one that is not durable is nobody's duty. A subscription may be asked for
by name: then it alone counts.

This is read from what waits, and from the dead queue. Nothing is remembered for it: a confirmed event costs nothing. So a dead
event that somebody took out of the dead queue, because it was dealt with, is told as confirmed. Ranges are taken as they are
asked: a position that its destination never had is not told apart from one that was confirmed.

An answer names so many ranges at most. What it does not reach is left out, beyond `through`: ask for that again. ADR 21 tells why
nothing is remembered.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from holdfast.destination.backlog.backlog import Span
from holdfast.destination.name import is_pattern
from holdfast.destination.state.queue import Queue
from holdfast.destination.state.state import State
from holdfast.destination.state.subscription import Subscription
from holdfast.destination.state.topic import Topic
from holdfast.event import position
from holdfast.event.position import INDEX_MASK, Ranges

# Ranges that an answer names at most, of each outcome; deaths that differ, and letters of a reason. Together they fit a frame.
RANGES_MAX = 8_192
DEATHS_MAX = 128
REASON_LENGTH_MAX = 1_000

EVERY_POSITION = (1 << 64) - 1


class GivenUp(NamedTuple):
    """Events that were given up alike."""

    ranges: Ranges
    code: str
    reason: str
    subscription: str  # "" for a queue


class Outcomes(NamedTuple):
    """What became of the positions that were asked for, up to `through`; those in none of these are confirmed."""

    waiting: Ranges
    dead: Sequence[GivenUp]
    nobody: Ranges
    through: int


def counting(state: State, destination: str, subscription: str = "") -> list[Queue]:
    """The queues and subscriptions that count for a destination, or the one that is named. `destination` may be a pattern's key.

    A destination that does not exist has nobody; NoSuchSubscription, or WrongKind, for a subscription that does not.
    """
    if subscription or is_pattern(destination):
        return [state.catalog.queue(destination, subscription)]
    found = state.catalog.destinations.get(destination)
    if isinstance(found, Topic):
        return [each for each in found.filled() if each.is_durable]
    return [] if found is None else [found]


def outcomes_of(state: State, destination: str, subscription: str, asked: Ranges) -> Outcomes:
    """What became of these positions of a destination, or of one subscription."""
    who = counting(state, destination, subscription)
    waiting = _waiting(state, who, asked)
    rest = asked.without(waiting)
    found = list(_dead(state, who, subscription, rest)) if destination != state.dead.name else []
    dead, through = _alike(found, EVERY_POSITION)
    alive = rest.without(Ranges.gather((first, last) for first, last, *_ in found))
    nobody = _before(alive, _since(who))
    return _cut(Outcomes(waiting, dead, nobody, through))


def outcomes_since(state: State, destination: str, subscription: str, asked: Ranges, decided: Ranges) -> Outcomes:
    """The same, if all of these positions waited before somebody decided on some of them: only those are looked at."""
    found = outcomes_of(state, destination, subscription, decided)
    finished = _before(decided.without(found.waiting), found.through + 1)
    return _cut(found._replace(waiting=asked.without(finished), through=EVERY_POSITION))


def _cut(found: Outcomes) -> Outcomes:
    """As much of an answer as may be named."""
    through = found.through
    for ranges in (found.waiting, found.nobody):
        if len(ranges) > RANGES_MAX:
            through = min(through, next(ranges.portions(RANGES_MAX)).last)
    if through == EVERY_POSITION:
        return found
    dead = [each._replace(ranges=_before(each.ranges, through + 1)) for each in found.dead]
    waiting, nobody = (_before(ranges, through + 1) for ranges in (found.waiting, found.nobody))
    return Outcomes(waiting, [each for each in dead if each.ranges], nobody, through)


def joined(parts: Sequence[tuple[Ranges, Outcomes]]) -> Outcomes:
    """The outcomes of parts of what was asked, each with that part, in order: as many as one answer names."""
    waiting, nobody, dead = Ranges(), Ranges(), dict[tuple[str, str, str], Ranges]()
    for asked, found in parts:
        kinds = {*dead, *(each[1:] for each in found.dead)}
        counts = (len(waiting) + len(found.waiting), len(nobody) + len(found.nobody), _count(dead) + _count(found.dead))
        if max(counts) > RANGES_MAX or len(kinds) > DEATHS_MAX:
            return Outcomes(waiting, _told(dead), nobody, asked.first - 1)
        for each in found.waiting:
            waiting.add_last(*each)
        for each in found.nobody:
            nobody.add_last(*each)
        for ranges, *how in found.dead:
            for each in ranges:
                dead.setdefault((how[0], how[1], how[2]), Ranges()).add_last(*each)
        if found.through < asked.last:
            return Outcomes(waiting, _told(dead), nobody, found.through)
    return Outcomes(waiting, _told(dead), nobody, EVERY_POSITION)


def _count(dead: dict[tuple[str, str, str], Ranges] | Sequence[GivenUp]) -> int:
    return sum(map(len, dead.values())) if isinstance(dead, dict) else sum(len(each.ranges) for each in dead)


def _told(dead: dict[tuple[str, str, str], Ranges]) -> list[GivenUp]:
    return [GivenUp(ranges, *how) for how, ranges in dead.items()]


def _waiting(state: State, who: Sequence[Queue], asked: Ranges) -> Ranges:
    spans: list[Span] = [span for each in who if each.is_used for span in each.backlog.unfinished(asked)]
    if asked and state.bodies.has_held:
        spans += _parts(asked, state.bodies.held_between(position.entry_of(asked.first), position.entry_of(asked.last)))
    if asked and position.entry_of(asked.last) > state.applied:
        beyond = position.of(state.applied + 1)
        spans += [(max(first, beyond), last) for first, last in asked if last >= beyond]
    return Ranges.gather(spans)


def _parts(asked: Ranges, entries: Sequence[int]) -> Iterator[Span]:
    """The parts of the ranges that lie in these entries."""
    whole = Ranges.gather((position.of(entry), position.of(entry, INDEX_MASK)) for entry in entries)
    return iter(asked.without(asked.without(whole)))


class _Run(NamedTuple):
    first: int
    last: int
    code: str
    reason: str
    subscription: str


def _dead(state: State, who: Sequence[Queue], subscription: str, rest: Ranges) -> Iterator[_Run]:
    """Runs of these positions that wait in the dead queue, each with the first death that counts."""
    names = {each.key for each in who}
    for first, last in state.dead.backlog.unfinished(rest):
        for low, high, deaths in state.dead.deaths_over(first, last):
            for death in deaths:
                key = (death.destination, death.subscription)
                if key in names or (not subscription and _counted(state, key)):
                    yield _Run(low, high, death.code, death.reason[:REASON_LENGTH_MAX], death.subscription)
                    break


def _counted(state: State, key: tuple[str, str]) -> bool:
    """Whether somebody counted who has given an event up, and may be gone. Own subscriptions have a name that begins so."""
    there = state.catalog.queues.get(key)
    return not key[1].startswith("_") if there is None else not isinstance(there, Subscription) or there.is_durable


def _alike(found: Sequence[_Run], through: int) -> tuple[list[GivenUp], int]:
    """The runs by their deaths, as far as an answer may name them; and how far that is."""
    groups: dict[tuple[str, str, str], Ranges] = {}
    for count, run in enumerate(sorted(found)):
        if count >= RANGES_MAX or (run[2:] not in groups and len(groups) == DEATHS_MAX):
            through = run.first - 1
            break
        groups.setdefault(run[2:], Ranges()).add_last(run.first, run.last)
    return [GivenUp(ranges, *how) for how, ranges in groups.items()], through


def _since(who: Sequence[Queue]) -> int:
    """The position from which on somebody who counts has been there; 0 for a queue."""
    made = [each.made_at if isinstance(each, Subscription) else 0 for each in who]
    return position.of(min(made)) if made else EVERY_POSITION


def _before(ranges: Ranges, end: int) -> Ranges:
    """The positions of these ranges before an end."""
    made = Ranges()
    for first, last in ranges:
        if first >= end:
            break
        made.add_last(first, min(last, end - 1))
    return made
