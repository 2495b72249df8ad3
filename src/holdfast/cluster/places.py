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

The node says which (`fixed`), because names are not known here. `PlaceTable` is the table of one process. The one that the nodes
of a cluster share stands behind the same protocol (`shared_places`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from holdfast.errors import BadSetting, HoldfastError
from holdfast.event.pattern import Pattern

# The manager of what is at every manager.
EVERYWHERE = "*"

# The manager of a name that needs no entry; None for all others.
Fixed = Callable[[str], str | None]
# Called with the manager of a place.
Reserved = Callable[[str], None]
# Called with the reason for which a place can be neither found nor made.
Failed = Callable[[HoldfastError], None]
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

    def revision_of(self, destination: str) -> int:
        """Return the number of the last change of its place, which commands carry; 0 in a table that is not shared."""

    def reserve(self, destination: str, then: Reserved, failed: Failed, is_created: bool = False) -> None:
        """Find its place, or make one; call `then` with its manager, or `failed`, perhaps before this returns.

        `is_created`: the destination is about to be created, and not merely used."""

    def learn(self, destination: str, is_used: bool, then: Callable[[], None]) -> bool:
        """Whether the place may be one that is not known here; `then` is called when it is looked for. `is_used`: it is made, if
        there is none. In one process: never."""

    def begin_delete(self, destination: str, then: Callable[[int], None], failed: Failed) -> None:
        """Note that a destination is to be deleted; call `then` with the revision that its `Delete` carries, or `failed`."""

    def end_delete(self, destination: str, revision: int, is_deleted: bool, then: Callable[[], None]) -> None:
        """The `Delete` of this revision was applied, or refused; `then` is called when that is noted."""


def check_rules(rules: Sequence[Rule], managers: Sequence[str]) -> None:
    for rule in rules:
        if rule.manager not in managers:
            raise BadSetting(
                f"placement {rule.pattern.text!r}: there is no manager {rule.manager!r}; there are {', '.join(managers)}",
                setting="placement",
            )


def choose(destination: str, rules: Iterable[Rule], load: Mapping[str, int]) -> str:
    """The manager of a new destination: of the first rule that matches, or the one with the fewest destinations."""
    for rule in rules:
        if rule.pattern.matches(destination):
            return rule.manager
    return min(load, key=lambda each: (load[each], each))


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
        check_rules(self._rules, self._managers)
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

    def revision_of(self, destination: str) -> int:
        return 0

    def reserve(self, destination: str, then: Reserved, failed: Failed, is_created: bool = False) -> None:
        found = self.find(destination)
        if found is None:
            found = choose(destination, self._rules, self._load)
            self.note(destination, found)
        then(found)

    def learn(self, destination: str, is_used: bool, then: Callable[[], None]) -> bool:
        return False

    def begin_delete(self, destination: str, then: Callable[[int], None], failed: Failed) -> None:
        then(0)

    def end_delete(self, destination: str, revision: int, is_deleted: bool, then: Callable[[], None]) -> None:
        then()

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
