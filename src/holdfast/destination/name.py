"""Names of destinations and subscriptions: what they may look like, said in a sentence when they do not.

    1 to 255 characters out of letters, digits and . _ - /        orders, plant/7/alarms, billing.eu-west_1

A leading underscore is reserved: `_DMQ`, where dead events go, exists everywhere, and others will come. Nobody creates,
deletes or sends to such a name.
"""

from __future__ import annotations

import re

from holdfast.errors import BadName

LENGTH_MAX = 255
DEAD = "_DMQ"

_FOREIGN = re.compile(r"[^A-Za-z0-9._/-]")


def check_destination(name: str) -> None:
    """BadName unless a client may create, delete or send to a destination of this name."""
    _check_letters("destination", name)
    if name.startswith("_"):
        raise BadName(
            f"destination {name!r}: names with a leading underscore are reserved for Holdfast itself; leave the underscore out",
            name=name,
        )


def check_subscription(name: str, is_durable: bool = True) -> None:
    """BadName unless a subscription may have this name.

    Those of a session are named by its client manager, which may use an underscore.
    """
    _check_letters("subscription", name)
    if is_durable and name.startswith("_"):
        raise BadName(
            f"subscription {name!r}: names with a leading underscore are reserved for Holdfast itself; leave the underscore out",
            name=name,
        )


def _check_letters(what: str, name: str) -> None:
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
