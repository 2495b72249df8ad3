"""Why events died, as it travels with them to who receives or browses the dead queue.

A slice of the dead queue is cut where the deaths differ, so that one list of them holds for all its events. However often an
event died and however much was said of it, what travels is bounded.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.bus.message import DeliveredSlice
from holdfast.destination.dead import Deaths
from holdfast.destination.name import DEAD
from holdfast.destination.state import State
from holdfast.event import position
from holdfast.event.batch import slice_of
from holdfast.wire.message import Death

# Deaths of one event that travel, the oldest first, and characters of all their reasons.
DEATHS_MAX = 8
REASONS_LENGTH_MAX = 8_000
# What they may come to as bytes, so that frames are kept within their limit.
DEATHS_BYTES = 4 * REASONS_LENGTH_MAX
# Events of the dead queue in one page of a browser.
EVENTS_A_PAGE = 16


def with_deaths(state: State, backlog: str, slices: Sequence[DeliveredSlice]) -> list[DeliveredSlice]:
    """The same slices; those of the dead queue with why their events are there."""
    return list(slices) if backlog != DEAD else [cut for each in slices for cut in _cut(state, each)]


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
