"""Commands of administration: destinations and subscriptions come, change and go. `command` has the others, and how all look."""

from __future__ import annotations

from typing import ClassVar, Literal

import msgspec

from holdfast.destination.removal import Limits
from holdfast.destination.settings import Settings


class Command(msgspec.Struct, array_like=True, frozen=True):
    """A command has a kind, and a head that is a msgpack array (new fields go last, with a default)."""

    KIND: ClassVar[int] = 0


class Create(Command, frozen=True):
    """Create a destination. `is_implicit`: on first use; then it may exist already, if it is of the same kind."""

    KIND = 5
    name: str
    kind: Literal["queue", "topic"]
    settings: Settings = Settings()
    is_implicit: bool = False
    origin: str = ""
    token: int = 0
    session: str = ""  # owns a temporary destination, which goes with it; only its client may receive from that
    is_unconfigured: bool = False  # it has the settings of a first use, and takes those of the first who gives some
    revision: int = 0  # of its place in a cluster: ignored if a later one was applied; 0: in no cluster


class Ensure(Command, frozen=True):
    """See to it that a destination is there, and that the settings `given` agree, or (`update`) change them.

    `settings` are those of a new one; a destination that nobody has configured takes them, too."""

    KIND = 22
    name: str
    kind: Literal["queue", "topic"]
    settings: Settings = Settings()
    given: list[str] = []
    update: bool = False
    origin: str = ""
    token: int = 0
    revision: int = 0  # as in `Create`


class Delete(Command, frozen=True):
    KIND = 6
    name: str
    origin: str = ""
    token: int = 0
    at_ms: int = 0
    is_forced: bool = True  # also where something waits, as in all commands written before this field
    revision: int = 0  # as in `Create`


class Purge(Command, frozen=True):
    """Throw away everything that waits in a queue, what recipients hold included. The queue stays as it is."""

    KIND = 26
    name: str
    origin: str = ""
    token: int = 0


class Configure(Command, frozen=True):
    """Change the settings of a destination that `changed` names; the others stay as they are."""

    KIND = 19
    name: str
    settings: Settings
    origin: str = ""
    token: int = 0
    changed: list[str] = []


class Subscribing(Command, frozen=True):
    """The terms on which somebody subscribes to a topic, or (`match` glob or regex) to all topics whose names match."""

    topic: str  # a name, or a pattern
    name: str
    is_durable: bool
    session: str = ""
    origin: str = ""
    token: int = 0
    match: Literal["name", "glob", "regex"] = "name"
    selector: str = ""
    is_shared: bool = False
    no_local: bool = False
    client: str = ""  # with `no_local`: whose events it does not want
    replace: bool | None = None  # also what waits in it; None: written before this field


class Subscribe(Subscribing, frozen=True):
    """Create a subscription, if it is not there, of a topic or of all topics that match, now and later (rule 12).

    A non-durable one belongs to a session and goes with it; a shared non-durable one has no session and goes with its last
    receiver. `subscribing` says what happens if the subscription exists on other terms."""

    KIND = 7
    limits: Limits | None = None  # see `removal`; None: those it has, or none


class EnsureSubscription(Subscribing, frozen=True):
    """See to it that a durable subscription is there, and that the terms `given` agree, or (`update`) change them."""

    KIND = 23
    given: list[str] = []
    update: bool = False
    limits: Limits | None = None


class SubscribeLike(Command, frozen=True):
    """Create a durable subscription with the terms of another one of the same topic, and with everything that waits in that."""

    KIND = 24
    topic: str  # a name, or a pattern as in keys
    name: str
    like: str
    replace: bool = False
    origin: str = ""
    token: int = 0


class Remove(Command, frozen=True):
    """The primary found that a subscription has passed a limit of its terms: remove it, if that is still so."""

    KIND = 25
    epoch: int
    topic: str  # a name, or a pattern as in keys
    name: str
    made_at: int  # the entry that made it: one that was made anew stays
    oldest: int = 0  # the entry of an event that has waited too long


class Unsubscribe(Command, frozen=True):
    KIND = 8
    topic: str
    name: str
    origin: str = ""
    token: int = 0
    is_forced: bool = True  # also where something waits
