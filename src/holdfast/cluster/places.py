"""The table of places: which message manager owns each destination (ADR 22).

    "orders"   ──▶ m1        find: known here, answered at once
    "invoices" ──▶ m2
    "refunds"  ──▶ ?         reserve: the first rule that matches its name, or the manager with the fewest destinations

Whoever creates a destination reserves its place first, then creates it there. A place without a destination is a reservation that
was not completed, or a destination that was deleted: whoever uses the name next creates it at that place. So the place of a name
never changes, and a client may keep what it was told.

Some names need no entry:

    _ADMIN, _LOG                at the first manager
    _DMQ, and every pattern     at every manager (`EVERYWHERE`)
    _temporary.m2/…             a temporary destination: its name says where it is

The node says which (`fixed`), because names are not known here. `PlaceTable` is the table of one process. A table that processes
share (a key-value bucket that each watches) stands behind the same protocol: `find` is answered from the watched copy, and
`reserve` when the bucket has taken the entry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from holdfast.errors import BadSetting
from holdfast.event.pattern import Pattern

# The manager of what is at every manager.
EVERYWHERE = "*"

# The manager of a name that needs no entry; None for all others.
Fixed = Callable[[str], str | None]
# Called with the manager of a place.
Reserved = Callable[[str], None]
# Called with a destination and its manager.
Changed = Callable[[str, str], None]


class Rule(NamedTuple):
    """Destinations whose names match the pattern (`orders.*`) are placed at this manager."""

    pattern: Pattern
    manager: str


class Places(Protocol):
    @property
    def managers(self) -> Sequence[str]: ...

    def find(self, destination: str) -> str | None:
        """Return the manager of a destination, or of a key of backlogs; EVERYWHERE; None if there is no place."""

    def reserve(self, destination: str, then: Reserved) -> None:
        """Find its place, or make one; call `then` with its manager, perhaps before this returns."""


class PlaceTable(Places):
    def __init__(
        self,
        managers: Sequence[str],
        fixed: Fixed,
        rules: Iterable[Rule] = (),
        known: Mapping[str, str] | None = None,
        changed: Changed = lambda destination, manager: None,
    ) -> None:
        """`known`: the places from before. `changed` makes a change lasting before it counts."""
        self._managers = tuple(managers)
        self._rules = tuple(rules)
        for rule in self._rules:
            if rule.manager not in self._managers:
                raise BadSetting(
                    f"placement {rule.pattern.text!r}: there is no manager {rule.manager!r}; there are {', '.join(managers)}",
                    setting="placement",
                )
        self._fixed = fixed
        self._changed = changed
        self._places = {name: manager for name, manager in (known or {}).items() if manager in self._managers}
        self._load = dict.fromkeys(self._managers, 0)
        for manager in self._places.values():
            self._load[manager] += 1

    @property
    def managers(self) -> Sequence[str]:
        return self._managers

    def find(self, destination: str) -> str | None:
        found = self._places.get(destination)
        return found if found is not None else self._fixed(destination)

    def reserve(self, destination: str, then: Reserved) -> None:
        found = self.find(destination)
        if found is None:
            found = self._choose(destination)
            self.note(destination, found)
        then(found)

    def _choose(self, destination: str) -> str:
        for rule in self._rules:
            if rule.pattern.matches(destination):
                return rule.manager
        return min(self._managers, key=lambda each: (self._load[each], each))

    def note(self, destination: str, manager: str) -> bool:
        """A destination was found at a manager; whether that is its place."""
        known = self._places.get(destination)
        if known is None and self._fixed(destination) is None:
            self._changed(destination, manager)
            self._places[destination] = manager
            self._load[manager] += 1
            return True
        return known is None or known == manager

    def at(self, manager: str) -> list[str]:
        """The destinations that have their place at a manager."""
        return [name for name, each in self._places.items() if each == manager]
