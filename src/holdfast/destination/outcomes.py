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

An answer names so many ranges at most. What it does not reach is left out, beyond `through`: ask for that again.
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
    for ranges in (waiting, nobody):
        if len(ranges) > RANGES_MAX:
            through = min(through, next(ranges.portions(RANGES_MAX)).last)
    if through == EVERY_POSITION:
        return Outcomes(waiting, dead, nobody, through)
    cut = [each._replace(ranges=_before(each.ranges, through + 1)) for each in dead]
    return Outcomes(_before(waiting, through + 1), [each for each in cut if each.ranges], _before(nobody, through + 1), through)


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
