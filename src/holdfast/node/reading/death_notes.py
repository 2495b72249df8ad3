"""Death notes: why events died, sent with them to recipients and browsers of the dead queue.

A slice of the dead queue is cut where the deaths differ, so that one list of deaths holds for all its events. The notes are
bounded, however often an event died and however long the reasons are.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.bus.message import DeliveredSlice
from holdfast.destination.name import DEAD
from holdfast.destination.state.dead import Deaths
from holdfast.destination.state.state import State
from holdfast.event import position
from holdfast.event.batch import slice_of
from holdfast.node import supervision
from holdfast.wire.message_part import Death

# Deaths of one event that are sent, the oldest first, and characters of all their reasons.
DEATHS_MAX = 8
REASONS_LENGTH_MAX = 8_000
# Their size in bytes at most, so that frames are kept within their limit.
DEATHS_BYTES = 4 * REASONS_LENGTH_MAX
# Events of the dead queue in one page of a browser.
EVENTS_A_PAGE = 16


def with_deaths(state: State, backlog: str, slices: Sequence[DeliveredSlice]) -> list[DeliveredSlice]:
    """The same slices; those of the dead queue with the reasons why their events died."""
    return list(slices) if backlog != DEAD else [cut for each in slices for cut in _cut_or_whole(state, each)]


def _cut_or_whole(state: State, handed: DeliveredSlice) -> list[DeliveredSlice]:
    """A slice with its deaths, or without if they cannot be found: a dead event must stay deliverable."""
    try:
        return _cut(state, handed)
    except Exception as problem:
        supervision.report(f"finding why the events at {handed.first} died", problem)
        return [handed]


def _cut(state: State, handed: DeliveredSlice) -> list[DeliveredSlice]:
    if not state.dead.backlog.needs(position.entry_of(handed.first)):
        return [handed]  # confirmed by somebody else while it was fetched
    cuts = []
    for first, last, deaths in state.dead.deaths_over(handed.first, handed.first + handed.events - 1):
        events = last - first + 1
        data = slice_of(handed.batch, first - handed.first, events)
        is_adjoining = handed.is_adjoining if first == handed.first else True
        cuts.append(
            handed._replace(first=first, events=events, is_adjoining=is_adjoining, batch=data, deaths=_travelling(deaths))
        )
    return cuts


def _travelling(deaths: Deaths) -> tuple[Death, ...]:
    told = deaths[:DEATHS_MAX]
    most = REASONS_LENGTH_MAX // len(told)
    return tuple(
        Death(death.destination, death.subscription, death.code, death.reason[:most], death.deliveries, death.at_ms)
        for death in told
    )
