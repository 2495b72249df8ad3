r"""What a receiver asks for beside the name of its destination, checked before anything travels.

                      name      durable    shared
    own               none      no         no        what is sent from now on, for this receiver alone
    durable           "audit"   yes        no        remembers while nobody receives; one receiver at a time
    shared            "pool"    no         yes       any number of receivers, each event to one; goes with the last of them
    shared durable    "pool"    yes        yes       any number of receivers, each event to one; remembers

A named subscription is durable unless `durable=False` is said. Whom it receives from:

    "alerts.eu"                a topic
    "alerts.*", "alerts.>"     all topics whose names match, those to come included (`holdfast.event.pattern`)
    regex=r"alerts\.(eu|us)"   the same with a regular expression
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from holdfast.destination import name as names
from holdfast.errors import BadName, BadPattern, BadSetting

Match = Literal["name", "glob", "regex"]
_WILD = re.compile(r"[*?>]")


class Asked(NamedTuple):
    """In the order of the fields of an `Attach` frame."""

    selector: str = ""
    match: Match = "name"
    is_durable: bool = True
    is_shared: bool = False
    no_local: bool = False


PLAIN = Asked()


class Wanted(NamedTuple):
    """A subscription: of which topic or pattern, by which name ("" for one of the receiver's own), and how."""

    topic: str
    subscription: str
    asked: Asked


def subscription(
    topic: str | None,
    name: str | None,
    *,
    durable: bool | None = None,
    shared: bool = False,
    no_local: bool = False,
    selector: str | None = None,
    regex: str | None = None,
) -> Wanted:
    """What `subscribe` was asked for. Each refusal says what to write instead."""
    where, match = place(topic, regex)
    _check_flags(durable=durable, shared=shared, no_local=no_local)
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
    return Wanted(where, name or "", Asked(condition(selector), match, is_durable, shared, no_local))


def place(topic: str | None, regex: str | None = None) -> tuple[str, Match]:
    """A topic by its name, or the pattern that is meant; BadName or BadPattern for what is neither."""
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
    """A destination by its name, or a pattern, as `match` says; without it, what has wildcards is one. Checked."""
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
    """What stands for a topic, or for a pattern, where backlogs are named."""
    where, match = place(topic, regex)
    return where if match == "name" else f"{match}:{where}"


def condition(selector: str | None) -> str:
    """The text of a selector, "" for none; BadSelector, with the place, for one that is wrong."""
    if selector is None or selector == "":
        return ""
    from holdfast.event.selector import parse_optional

    parse_optional(selector)
    return selector


def _check_flags(**given: bool | None) -> None:
    for what, value in given.items():
        if not isinstance(value, bool) and not (what == "durable" and value is None):
            raise BadSetting(f"{what} is True or False, not {value!r}", setting=what)
