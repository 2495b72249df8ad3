r"""The options of a receiver beside the name of its destination, checked before anything travels.

                      name      durable    shared
    own               none      no         no        what is sent from now on, for this receiver alone
    durable           "audit"   yes        no        remembers while nobody receives; one receiver at a time
    shared            "pool"    no         yes       any number of receivers, each event to one; goes with the last of them
    shared durable    "pool"    yes        yes       any number of receivers, each event to one; remembers

A named subscription is durable unless `durable=False` is said. It receives from:

    "alerts.eu"                a topic
    "alerts.*", "alerts.>"     all topics whose names match, those to come included (`holdfast.event.pattern`)
    regex=r"alerts\.(eu|us)"   the same with a regular expression
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Literal, NamedTuple, TypedDict

from holdfast.client.checks import ConfirmMode
from holdfast.destination import name as names
from holdfast.destination.removal import NAMES as LIMIT_NAMES
from holdfast.destination.removal import Limits
from holdfast.destination.settings import duration_ms
from holdfast.errors import BadName, BadPattern, BadSetting
from holdfast.event.position import Ranges

Match = Literal["name", "glob", "regex"]
# Wildcards, with those of MQTT and AMQP: `Pattern` refuses those, and says what to write.
_WILD = re.compile(r"[*?>#+]")


class _Pace(TypedDict, total=False):
    credit: int | None
    credit_bytes: int
    timeout: float | None
    confirm: ConfirmMode | None
    held: Ranges | Iterable[tuple[int, int]] | Callable[[], Ranges | Iterable[tuple[int, int]]] | None


class ReceiveOptions(_Pace, total=False):
    """The options of `receive`.

    credit         exactly so many events are handed over ahead of use; None: about a quarter of a second of the program's work
    credit_bytes   and about so many bytes
    timeout        seconds to wait for the next event, then TimedOut; 0 takes only an event that is here, None waits for ever
    confirm        when an event counts as finished (`confirm_modes`); None for the mode of the session
    held           of a program that keeps what it was handed on a disk of its own: positions that it has already, or a function
                   that says which, asked again when everything begins anew. They are not sent again, and no delivery counts when
                   the receiver is gone (`attachment`)
    selector       receive only events that match; the rest waits for others. It sees properties and attributes, not data
    """

    selector: str | None


class SubscriptionTerms(TypedDict, total=False):
    """The terms of a subscription: the options of `create_subscription`.

    shared     several receivers may share the subscription; each event goes to one of them
    no_local   leave out events that the receiving client itself sends
    selector   keep only events that match. It sees properties and attributes, not data
    replace    replace a durable subscription of other terms although events wait in it; they are lost

    Past one of these limits the subscription is removed, with all that waits in it, instead of holding producers back:

    remove_after_events, remove_after_bytes    more than so many wait
    remove_after                               its oldest event has waited for longer than this: "1h", "90s", or seconds
    """

    shared: bool
    no_local: bool
    selector: str | None
    replace: bool
    remove_after_events: int
    remove_after_bytes: int
    remove_after: str | float


class SubscribeOptions(_Pace, SubscriptionTerms, total=False):
    """The options of `subscribe`: those of `ReceiveOptions`, the terms of `SubscriptionTerms`, and

    durable    keep events while nobody receives; None means yes for a subscription with a name, no for one without
    take_over  take the place of the receiver that a durable subscription has, at once, if it is of the same user: a program
               that was killed and starts again need not wait until its former session is given up
    """

    durable: bool | None
    take_over: bool


class Asked(NamedTuple):
    """The options of an `Attach` frame, in the order of its fields."""

    selector: str = ""
    match: Match = "name"
    is_durable: bool = True
    is_shared: bool = False
    no_local: bool = False
    replace: bool = False
    is_owner: bool = False
    ahead: bytes | None = None
    take_over: bool = False
    limits: Limits | None = None
    keeps: bool = False


PLAIN = Asked()


class Wanted(NamedTuple):
    """A subscription: of which topic or pattern, by which name ("" for one of the receiver's own), and how."""

    topic: str
    subscription: str
    asked: Asked


def subscription(
    topic: str | None,
    name: str | None,
    terms: SubscriptionTerms,
    *,
    durable: bool | None = None,
    regex: str | None = None,
    take_over: bool = False,
) -> Wanted:
    """The subscription that `subscribe` was asked for. Each refusal says what to write instead."""
    where, match = place(topic, regex)
    shared, no_local, replace = terms.get("shared", False), terms.get("no_local", False), terms.get("replace", False)
    _check_flags(durable=durable, shared=shared, no_local=no_local, replace=replace, take_over=take_over)
    if name is not None:
        names.check_subscription(name)
    is_durable = name is not None if durable is None else durable
    if shared and name is None:
        raise BadSetting("a shared subscription is found by its name; give it one", setting="name")
    if is_durable and name is None:
        raise BadSetting("a durable subscription is found again by its name; give it one", setting="name")
    if name is not None and not is_durable and not shared:
        raise BadSetting(
            f"subscription {name!r}: a subscription that is neither durable nor shared has no name; leave the name out, or say "
            "shared=True",
            setting="name",
        )
    if shared and no_local:
        raise BadSetting(
            "a shared subscription has receivers of several clients and no own events to leave out; leave no_local out",
            setting="no_local",
        )
    if take_over and (shared or not is_durable):
        raise BadSetting(
            "take_over is for a durable subscription that is not shared, which has one receiver; give a name, or leave it out",
            setting="take_over",
        )
    chosen = (condition(terms.get("selector")), match, is_durable, shared, no_local, replace)
    return Wanted(where, name or "", Asked(*chosen, take_over=take_over, limits=_limits(terms)))


def _limits(terms: SubscriptionTerms) -> Limits | None:
    """The limits past which a subscription is removed; None if none is given."""
    if not any(name in terms for name in LIMIT_NAMES):
        return None
    age_ms = duration_ms(terms.get("remove_after", 0), "remove_after")
    limits = Limits(terms.get("remove_after_events", 0), terms.get("remove_after_bytes", 0), age_ms)
    limits.check()
    return limits


def place(topic: str | None, regex: str | None = None) -> tuple[str, Match]:
    """The name of a topic, or a pattern, and which of them it is; BadName or BadPattern if it is neither."""
    if (topic is None) == (regex is None):
        raise BadName("give the name of a topic, a wildcard such as 'alerts.*', or regex=, and only one of them")
    if topic is not None and isinstance(topic, str) and not _WILD.search(topic):
        if not names.is_temporary(topic):
            names.check_usable(topic)
        return topic, "name"
    from holdfast.event.pattern import Pattern

    if regex is not None:
        return Pattern.regex(regex).text, "regex"
    if not isinstance(topic, str):
        raise BadPattern(f"the name of a topic is text, not {type(topic).__name__}; write it in quotes")
    return Pattern.glob(topic).text, "glob"


def place_of(destination: str, match: Match | None, subscription: str) -> tuple[str, Match]:
    """The name of a destination, or a pattern, as `match` says. Without `match`, a name with wildcards is a pattern."""
    if match not in (None, "name", "glob", "regex"):
        raise BadSetting(f"match {match!r:.40} is not name, glob or regex; leave it out for a topic by its name", setting="match")
    if subscription:
        names.check_subscription(subscription)
    where, found = place(None, destination) if match == "regex" else place(destination)
    if match == "name" and found != "name":
        raise BadName(f"{destination!r:.40} is a pattern, not a name; say match='glob'")
    if found == "name" and match == "glob":
        from holdfast.event.pattern import Pattern

        where, found = Pattern.glob(destination).text, "glob"
    if found != "name" and not subscription:
        raise BadSetting(f"a pattern is read through a subscription; name that of {destination!r:.40}", setting="subscription")
    return where, found


def key_of(topic: str | None, regex: str | None = None) -> str:
    """The key of a topic, or of a pattern, under which its backlogs are named."""
    where, match = place(topic, regex)
    return where if match == "name" else f"{match}:{where}"


def condition(selector: str | None) -> str:
    """The text of a selector, "" for none; BadSelector, with the place, for one that is wrong."""
    if selector is None or selector == "":
        return ""
    from holdfast.event.selector.selector import parse_optional

    parse_optional(selector)
    return selector


def _check_flags(**given: bool | None) -> None:
    for what, value in given.items():
        if not isinstance(value, bool) and not (what == "durable" and value is None):
            raise BadSetting(f"{what} is True or False, not {value!r}", setting=what)
