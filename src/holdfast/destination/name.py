"""Names of destinations and subscriptions: which are allowed, and sentences that say why one is not.

    1 to 255 characters out of letters, digits and . _ - /        orders, plant/7/alarms, billing.eu-west_1

A leading underscore is reserved. Three such destinations exist everywhere, and nobody creates or deletes them (B16):

    _DMQ      queue   where dead events go          received from, never sent to
    _LOG      topic   what the server logs          subscribed to, never sent to
    _ADMIN    queue   what the server is asked to do    sent to, never received from

`_temporary.…` are the temporary queues and topics, which the server names. Anyone who knows such a name may send to it.

A text with a colon is no name but a pattern, as in the key of a backlog: `glob:alerts.*`, `regex:alerts.+`.
"""

from __future__ import annotations

import re

from holdfast.errors import BadName

LENGTH_MAX = 255
STAGE_LENGTH_MAX = 128
DEAD = "_DMQ"
TEMPORARY = "_temporary."
_OF_TOPIC = ".topic"
LOG = "_LOG"
ADMIN = "_ADMIN"
WELL_KNOWN = (DEAD, LOG, ADMIN)

_FOREIGN = re.compile(r"[^A-Za-z0-9._/-]")


def check_destination(name: str) -> None:
    """BadName unless a client may create, delete or send to a destination of this name."""
    check_letters("destination", name)
    if name.startswith("_"):
        raise BadName(
            f"destination {name!r}: names with a leading underscore are reserved for Holdfast itself; leave the underscore out",
            name=name,
        )


def check_usable(name: str) -> None:
    """BadName unless there can be a destination of this name, Holdfast's own included."""
    if name not in WELL_KNOWN:
        check_destination(name)


def check_sendable(name: str) -> None:
    """BadName for those of Holdfast's own destinations that only it may send to."""
    if name in (DEAD, LOG):
        raise BadName(f"only Holdfast itself sends to {name!r}; send to a destination of your own", name=name)


def check_receivable(name: str) -> None:
    if name == ADMIN:
        raise BadName(f"only Holdfast itself receives from {name!r}; send to it, with reply_to for the answer", name=name)


def check_temporary(name: str) -> None:
    """BadName unless this is a name that a server gives to a temporary destination."""
    check_letters("destination", name)
    if not is_temporary(name):
        raise BadName(f"temporary destination {name!r}: such a name begins with '{TEMPORARY}'; the server gives it", name=name)


def temporary(kind: str, identifier: str, manager: str = "") -> str:
    """The name of a temporary destination. It says the kind, and the message manager where there are several: a program that
    replies to it knows only the name."""
    return f"{TEMPORARY}{manager}{'/' if manager else ''}{identifier}{_OF_TOPIC if kind == 'topic' else ''}"


def manager_of_temporary(name: str) -> str:
    """The message manager that the name of a temporary destination says; "" where there is one alone."""
    named, slash, _ = name.removeprefix(TEMPORARY).partition("/")
    return named if slash else ""


def is_temporary(name: str) -> bool:
    return name.startswith(TEMPORARY)


def is_temporary_topic(name: str) -> bool:
    return name.startswith(TEMPORARY) and name.endswith(_OF_TOPIC)


def is_pattern(name: str) -> bool:
    """Whether this is a pattern, as in the key of a backlog, and not the name of a destination."""
    return ":" in name


def is_everywhere(name: str) -> bool:
    """Whether this is at every message manager, where there are several: the dead queue, and what a pattern matches."""
    return name == DEAD or is_pattern(name)


def check_subscription(name: str, is_own: bool = False) -> None:
    """BadName unless a subscription may have this name.

    A client manager names the subscriptions of a session, and may use an underscore (`is_own`).
    """
    check_letters("subscription", name)
    if not is_own and name.startswith("_"):
        raise BadName(
            f"subscription {name!r}: names with a leading underscore are reserved for Holdfast itself; leave the underscore out",
            name=name,
        )


def check_letters(what: str, name: str) -> None:
    """BadName unless a destination or subscription can have this name, Holdfast's own and temporary ones included."""
    if not isinstance(name, str):
        raise BadName(f"the name of a {what} is text, not {type(name).__name__}; write it in quotes")
    if not name:
        raise BadName(
            f"the name of a {what} is empty; give it 1 to {LENGTH_MAX} letters, digits, '.', '_', '-' or '/'", name=name
        )
    if len(name) > LENGTH_MAX:
        raise BadName(
            f"{what} '{name[:20]}…' has {len(name)} characters and may have {LENGTH_MAX}; choose a shorter name",
            length=len(name),
        )
    found = _FOREIGN.search(name)
    if found:
        raise BadName(
            f"{what} {name!r} contains {found.group()!r}; use letters a-z and A-Z, digits, '.', '_', '-' and '/' only", name=name
        )


def check_stage(name: str) -> None:
    """BadName unless a stage may have this name."""
    if not isinstance(name, str) or not 1 <= len(name) <= STAGE_LENGTH_MAX or not name.isprintable():
        raise BadName(
            f"a stage cannot be called {name!r:.40}; give it 1 to {STAGE_LENGTH_MAX} printable characters, new for each attempt"
        )
