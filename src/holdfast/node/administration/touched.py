"""The arguments of an action, whichever it is, and the right that it needs."""

from __future__ import annotations

from typing import Literal, NamedTuple

import msgspec

from holdfast.access.access_list import Action
from holdfast.event.pattern import Pattern

ALL = Pattern.glob("**")


class Touched(NamedTuple):
    """The right that an action needs, and on what: a destination by its name, or all that a pattern matches."""

    right: Action | Literal["any"]  # any: for users who may do anything to it
    where: str | Pattern


class Arguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of one action, as they were given."""

    @property
    def touched(self) -> Touched | None:
        """None: nothing that belongs to others, so that every user may."""
        return None
