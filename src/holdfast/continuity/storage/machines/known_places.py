"""The places, as a front knows them: who is current, where bytes are staged, and which number a read must reach.

Places tell their state at roll calls. A place that fails to answer a question is not asked again before it has told its state
anew. What was told counts for FRESH_SECONDS. The time comes in as an argument.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

FRESH_SECONDS = 3.0


class PlaceState(msgspec.Struct, frozen=True):
    """How a place is, in its own words."""

    name: str
    address: str
    state: str  # current, joining, filling, waiting, silent
    number: int
    start: str = ""
    site: str = ""
    lag: int = 0
    files: int = 0
    lacking: int = 0
    loose: int = 0
    kind: str = ""


class KnownPlaces:
    def __init__(self) -> None:
        self.number = 0  # the newest that anybody was heard to have applied
        self._told: dict[str, tuple[PlaceState, float]] = {}

    def tell(self, states: Iterable[PlaceState], asked_at: float) -> None:
        """Places answered a roll call that began then. Who did not is known by what it told before."""
        for each in states:
            self._told[each.name] = (each, asked_at)
            self.reach(each.number)

    def reach(self, number: int) -> None:
        """A write of this number is applied somewhere: no read may be older."""
        self.number = max(self.number, number)

    def fail(self, name: str, now: float) -> None:
        """A place did not answer, or said that it is not current. A roll call that began later tells it anew."""
        told = self._told.get(name)
        if told is not None and told[1] <= now:
            self._told[name] = (msgspec.structs.replace(told[0], state="silent", lag=0), now)

    def current(self, now: float) -> Mapping[str, PlaceState]:
        """The places that may be asked, by name."""
        return {name: state for name, state in self.reachable(now).items() if state.state == "current"}

    def catching_up(self, now: float) -> Mapping[str, PlaceState]:
        """The places that are current when they have applied what waits for them."""
        told = sorted(self._told.items())
        return {name: each for name, (each, at) in told if each.state != "current" and each.lag and now - at <= FRESH_SECONDS}

    def reachable(self, now: float) -> Mapping[str, PlaceState]:
        """The places that can give bytes by digest, also while they are not current."""
        told = sorted(self._told.items())
        return {name: state for name, (state, at) in told if state.state != "silent" and now - at <= FRESH_SECONDS}

    def staged_at(self, places_min: int, now: float, turn: int) -> list[PlaceState]:
        """Where to stage bytes: one place more than must have them, in turn. Fewer than `places_min`: nowhere."""
        current = list(self.current(now).values())
        if len(current) < places_min:
            return []
        begin = turn % len(current)
        return [*current[begin:], *current[:begin]][: places_min + 1]
