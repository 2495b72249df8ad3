"""The places that the nodes of a cluster share in a bucket: one node's copy of them, and what is to be done next. Pure (ADR 27).

    nothing ──▶ placed ──▶ deleting ──▶ gone ──▶ placed …      each step is a compare and set in the bucket
                  ▲            │
                  └────────────┘ the deletion was refused, or somebody uses the name

    placed      the destination is there, or whoever uses the name creates it
    deleting    a `Delete` with this revision is on its way into the channel
    gone        the destination is deleted. Its place is kept: the name comes back where it was

The revision of an entry is the number of that change in the bucket, all names together. `Create` and `Delete` carry it, so that a
command that comes late revives and deletes nothing (rule 9). Whoever finds `deleting` and uses the name sets it back first, which
gives it a newer revision. Then either the `Delete` was applied before, and the use of the name creates the destination again; or
it comes later, and is ignored if a `Create` with the newer revision came first. The manager of a name never changes here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

import msgspec

from holdfast.cluster.places import Fixed, Rule, check_rules, choose

PLACED: Literal["placed"] = "placed"
DELETING: Literal["deleting"] = "deleting"
GONE: Literal["gone"] = "gone"


class Place(NamedTuple):
    manager: str
    state: Literal["placed", "deleting", "gone"] = PLACED
    revision: int = 0  # of the entry; 0 for one that is to be put


class Put(NamedTuple):
    """Set the entry, if its revision is `after` still; then ask again what is to be done."""

    place: Place
    after: int


class Done(NamedTuple):
    """Nothing is left to do."""

    place: Place


Step = Put | Done


class _Value(msgspec.Struct, omit_defaults=True):
    """An entry as it is in the bucket."""

    manager: str
    state: Literal["placed", "deleting", "gone"] = PLACED


def encode(place: Place) -> bytes:
    return msgspec.json.encode(_Value(place.manager, place.state))


def decode(value: bytes, revision: int) -> Place:
    """An entry of the bucket. What cannot be read, since an operator deleted it by hand, counts as gone from nowhere."""
    try:
        found = msgspec.json.decode(value, type=_Value)
    except msgspec.DecodeError:
        return Place("", GONE, revision=revision)
    return Place(found.manager, found.state, revision)


class SharedPlaces:
    def __init__(self, managers: Sequence[str], fixed: Fixed, rules: Iterable[Rule] = ()) -> None:
        self.managers = tuple(managers)
        self._fixed = fixed
        self._rules = tuple(rules)
        check_rules(self._rules, self.managers)
        self._places: dict[str, Place] = {}
        self._load = dict.fromkeys(self.managers, 0)

    def learn(self, name: str, place: Place) -> bool:
        """An entry was read, or put: whether it is news."""
        known = self._places.get(name)
        if known is not None and known.revision >= place.revision:
            return False
        self._count(known, -1)
        self._count(place, 1)
        self._places[name] = place
        return True

    def _count(self, place: Place | None, number: int) -> None:
        if place is not None and place.state != GONE and place.manager in self._load:
            self._load[place.manager] += number

    def fixed(self, name: str) -> str | None:
        """The manager of a name that needs no entry."""
        return self._fixed(name)

    def entry(self, name: str) -> Place | None:
        return self._places.get(name)

    def find(self, name: str) -> str | None:
        """The manager of a name, also of a destination that is gone; None for one that has no place."""
        found = self._places.get(name)
        return found.manager if found is not None and found.manager in self._load else self._fixed(name)

    def at(self, manager: str) -> list[str]:
        """The names that have their place at a manager, and are not gone."""
        return [name for name, place in self._places.items() if place.manager == manager and place.state != GONE]

    # --- what is to be done ------------------------------------------------------------------------------------------

    def reserving(self, name: str, manager: str = "", is_created: bool = False) -> Step:
        """What makes a place for this name; at this manager, if it is said and there is none yet. `is_created`: the `Create` that
        follows has a revision of its own, so that it is not taken for one that was applied before."""
        found = self._places.get(name)
        if found is None or found.manager not in self._load:
            chosen = manager or choose(name, self._rules, self._load)
            return Put(Place(chosen), found.revision if found is not None else 0)
        return Done(found) if found.state == PLACED and not is_created else Put(Place(found.manager), found.revision)

    def deleting(self, name: str) -> Put | None:
        """What begins to delete the destination of this name, for oneself: `Delete` carries the new revision. None where there is
        nothing to delete."""
        found = self._places.get(name)
        if found is None or found.state == GONE or found.manager not in self._load:
            return None
        return Put(Place(found.manager, DELETING), found.revision)

    def deleted(self, place: Place) -> Put:
        """The `Delete` of this entry was applied."""
        return Put(Place(place.manager, GONE), place.revision)

    def kept(self, place: Place) -> Put:
        """The `Delete` of this entry was refused: the destination stays."""
        return Put(Place(place.manager), place.revision)
