"""The arguments of each action of administration, and what it touches: declared once, to be carried out and to be permitted.

    Manage frame       ─┐                             ┌─▶ touched       the right it needs, on which name or pattern
    event to `_ADMIN`  ─┴▶ read(action, given) ─▶ struct
                                                      └─▶ carried out   from the same fields

Nothing can be permitted for one destination and done to another: an argument that an action does not have is refused. A name is a
name: the key of a pattern (`glob:orders.*`) does not pass for one; a pattern is given with `match`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET

from holdfast.destination.name import DEAD, LOG, check_letters, is_temporary
from holdfast.destination.removal import NAMES as LIMIT_NAMES
from holdfast.destination.removal import Limits
from holdfast.destination.settings import Settings, duration_ms
from holdfast.destination.state.subscription import Match, key_of_where, where_of
from holdfast.errors import BadSetting
from holdfast.event.pattern import Pattern
from holdfast.node.administration.argument_reader import convert
from holdfast.node.administration.cluster_arguments import Cluster, ClusterConfigure, ClusterOrder, Transactions
from holdfast.node.administration.touched import Arguments, Touched
from holdfast.node.logs.log_line import LogLine

# Lines of a program's log in one request.
LOG_LINES_MAX = 128
Kind = Literal["queue", "topic"]


# --- on destinations, by name ------------------------------------------------------------------------------------------


class Named(Arguments, frozen=True, kw_only=True):
    name: str

    def __post_init__(self) -> None:
        check_letters("destination", self.name)

    @property
    def touched(self) -> Touched | None:
        return Touched("manage", self.name)


class Settable(Named, frozen=True, kw_only=True):
    """The settings of a destination; delays in seconds. `Settings` says what is wrong with a value."""

    redelivery_limit: Any = UNSET
    redelivery_delay: Any = UNSET
    redelivery_factor: Any = UNSET
    redelivery_delay_max: Any = UNSET
    events_max: Any = UNSET
    bytes_max: Any = UNSET
    low_percent: Any = UNSET
    deduplicate: Any = UNSET

    def settings(self) -> tuple[Settings, list[str]]:
        """The settings, and which of them were given; BadSetting for a wrong value."""
        given = {name: value for name in SETTINGS if (value := getattr(self, name)) is not UNSET}
        found = {_IN_SECONDS.get(name, name): _in_kept_unit(name, value) for name, value in given.items()}
        return Settings(**found), list(found)


SETTINGS = tuple(name for name in Settable.__struct_fields__ if name not in Named.__struct_fields__)
# How the delays of a destination are given, in seconds, and how they are kept.
_IN_SECONDS = {
    "redelivery_delay": "redelivery_delay_ms",
    "redelivery_delay_max": "redelivery_delay_max_ms",
    "deduplicate": "deduplicate_ms",
}


def _in_kept_unit(name: str, value: Any) -> int:
    if name not in _IN_SECONDS:
        return value  # type: ignore[no-any-return]  # checked by Settings
    if name == "deduplicate":
        return duration_ms(value, name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e12:
        raise BadSetting(f"{name} {value!r:.40} is not a number of seconds; give 0 for none", setting=name)
    return round(value * 1000)


class Create(Settable, frozen=True, kw_only=True):
    kind: Kind


class Configure(Settable, frozen=True, kw_only=True):
    pass


class Ensure(Settable, frozen=True, kw_only=True):
    kind: Kind
    update: bool = False


class Delete(Named, frozen=True, kw_only=True):
    force: bool = False

    @property
    def touched(self) -> Touched | None:
        """A temporary one needs no rule: only the session that made it may, which is checked when it is deleted."""
        return None if is_temporary(self.name) else Touched("manage", self.name)


class Purge(Named, frozen=True, kw_only=True):
    pass


class Empty(Named, frozen=True, kw_only=True):
    pass


class Describe(Named, frozen=True, kw_only=True):
    @property
    def touched(self) -> Touched:
        return Touched("any", self.name)


class Locate(Named, frozen=True, kw_only=True):
    """`is_used`: it is sent to or received from, so that it may be created by that."""

    is_used: bool = True

    @property
    def touched(self) -> Touched | None:
        """A temporary one needs no rule, and its name says where it is."""
        return None if is_temporary(self.name) else Touched("any", self.name)


# --- on topics and patterns ----------------------------------------------------------------------------------------------


class OfTopic(Arguments, frozen=True, kw_only=True):
    """A topic by its name, or all topics that a pattern of kind `match` matches. Reading takes a queue too."""

    topic: str
    match: Match = "name"

    def __post_init__(self) -> None:
        where_of(self.topic, self.match)

    @property
    def where(self) -> str | Pattern:
        return where_of(self.topic, self.match)

    @property
    def key(self) -> str:
        """Its part of the keys of backlogs."""
        return key_of_where(self.where)

    @property
    def touched(self) -> Touched:
        return Touched("manage", self.where)


class Limited(OfTopic, frozen=True, kw_only=True):
    """The limits past which a subscription is removed; None: not given. `Limits` says what is wrong with a value."""

    remove_after_events: int | None = None
    remove_after_bytes: int | None = None
    remove_after: str | float | None = None  # a duration

    def limits(self) -> tuple[Limits | None, list[str]]:
        """The limits, None if none is given, and which are; BadSetting for a wrong value."""
        given = [name for name in LIMIT_NAMES if getattr(self, name) is not None]
        age_ms = 0 if self.remove_after is None else duration_ms(self.remove_after, "remove_after")
        limits = Limits(self.remove_after_events or 0, self.remove_after_bytes or 0, age_ms)
        limits.check()
        return limits if given else None, given


class Subscribe(Limited, frozen=True, kw_only=True):
    name: str
    selector: str = ""
    shared: bool = False
    no_local: bool = False
    replace: bool = False


class SubscribeLike(OfTopic, frozen=True, kw_only=True):
    name: str
    like: str
    replace: bool = False


class EnsureSubscription(Limited, frozen=True, kw_only=True):
    """Terms that are None are not given."""

    name: str
    selector: str | None = None
    shared: bool | None = None
    no_local: bool | None = None
    update: bool = False
    replace: bool = False


class Unsubscribe(OfTopic, frozen=True, kw_only=True):
    name: str
    force: bool = False


class Subscriptions(OfTopic, frozen=True, kw_only=True):
    after: str | None = None  # "" for the first page; None: all at once

    @property
    def touched(self) -> Touched:
        where = self.where
        return Touched("any" if isinstance(where, str) else "browse", where)


def place_of_subscription(row: Mapping[str, Any]) -> str:
    """The place of a subscription among those of its topic: a topic and a pattern may have one of the same name."""
    return f"{row['name']} {row.get('match', '')} {row['pattern'] or ''}"


class OfSubscription(OfTopic, frozen=True, kw_only=True):
    """A subscription, or a queue, that is read by place."""

    subscription: str = ""

    @property
    def touched(self) -> Touched:
        return Touched("browse", self.where)


class Extent(OfSubscription, frozen=True, kw_only=True):
    start: int | None = None
    events_max: int | None = None
    bytes_max: int | None = None
    pieces: int | None = None


class More(OfSubscription, frozen=True, kw_only=True):
    after: int
    wait_ms: int = 0


class Outcomes(OfSubscription, frozen=True, kw_only=True):
    """Without a subscription: of all who count for the destination. `ranges` as they travel."""

    ranges: bytes
    wait_ms: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.match != "name" and not self.subscription:
            raise BadSetting("name the subscription of the pattern; the topics it matches are asked about one by one")


class ConfirmUpTo(OfSubscription, frozen=True, kw_only=True):
    place: int

    @property
    def touched(self) -> Touched:
        return Touched("receive", self.where)


# --- on the user's own, and on the whole ---------------------------------------------------------------------------------


class List(Arguments, frozen=True, kw_only=True):
    """Each row is shown to users who may do anything to it (`permission.visible`)."""

    after: str = ""


class AllSubscriptions(Arguments, frozen=True, kw_only=True):
    """Each row is shown to users who may know of its topic, or of all that its pattern matches. `after` is the key of the last
    row that was shown: topic and name."""

    after: tuple[str, str] = ("", "")


class Status(Arguments, frozen=True, kw_only=True):
    pass


class DeadCursor(Arguments, frozen=True, kw_only=True):
    position: int

    @property
    def touched(self) -> Touched:
        return Touched("browse", DEAD)


class Temporary(Arguments, frozen=True, kw_only=True):
    kind: Kind


class DropStages(Arguments, frozen=True, kw_only=True):
    names: list[str]


class Log(Arguments, frozen=True, kw_only=True):
    """Lines that a program wants to have in the topic `_LOG`."""

    program: Annotated[str, msgspec.Meta(min_length=1, max_length=255)]
    lines: Annotated[list[LogLine], msgspec.Meta(max_length=LOG_LINES_MAX)]

    @property
    def touched(self) -> Touched:
        return Touched("send", LOG)


ACTIONS: Mapping[str, type[Arguments]] = {
    "create": Create,
    "configure": Configure,
    "ensure": Ensure,
    "delete": Delete,
    "purge": Purge,
    "empty": Empty,
    "describe": Describe,
    "locate": Locate,
    "subscribe": Subscribe,
    "subscribe_like": SubscribeLike,
    "ensure_subscription": EnsureSubscription,
    "unsubscribe": Unsubscribe,
    "subscriptions": Subscriptions,
    "extent": Extent,
    "more": More,
    "outcomes": Outcomes,
    "confirm_up_to": ConfirmUpTo,
    "list": List,
    "all_subscriptions": AllSubscriptions,
    "status": Status,
    "cluster": Cluster,
    "transactions": Transactions,
    "cluster_order": ClusterOrder,
    "cluster_configure": ClusterConfigure,
    "dead_cursor": DeadCursor,
    "temporary": Temporary,
    "drop_stages": DropStages,
    "log": Log,
}


# --- reading them --------------------------------------------------------------------------------------------------------


def read(action: str, given: dict[str, Any]) -> Arguments:
    """Read the arguments of a known action; BadSetting, BadName or BadPattern for those that it does not take."""
    kind = ACTIONS[action]
    for argument in given:
        if argument not in kind.__struct_fields__:
            known = ", ".join(kind.__struct_fields__) or "none"
            raise BadSetting(f"{action} has no argument {argument!r:.40}; it has: {known}", setting=argument[:40])
    return convert(kind, given)
