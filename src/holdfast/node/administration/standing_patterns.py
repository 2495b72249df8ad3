"""Standing patterns: durable subscriptions by pattern, which stand in the table of places before any manager has them (rule 10).

    Subscribe glob:alerts.* pager ─▶ table: "glob:alerts.* pager" ▶ terms ─▶ Subscribe at every manager
    Unsubscribe                   ─▶ table: deleting ─▶ Unsubscribe at every manager ─▶ gone

So a manager that joins later, or whose Subscribe got lost with the node that sent it, learns of them. A subscription with limits
is removed by itself at one manager or another, and does not stand; nor does one whose pattern is very long.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from holdfast.destination import command
from holdfast.destination.name import is_pattern
from holdfast.destination.state.subscription import key_of_topic

# Of the key in the table. Longer ones would not fit into a subject of the bucket.
KEY_LENGTH_MAX = 600


class Standing(NamedTuple):
    key: str
    terms: str
    is_kept: bool  # the terms of one that stands already stay


def key_of(topic: str, subscription: str) -> str:
    """The key in the table; `topic` as in the keys of backlogs. No destination has a name with a space."""
    return f"{topic} {subscription}"


def standing_of(made: command.Command) -> Standing | None:
    """What stands in the table before this command is appended; None for any other command."""
    if not isinstance(made, command.Subscribe | command.EnsureSubscription):
        return None
    if made.match == "name" or not made.is_durable or made.limits is not None:
        return None
    key = key_of(key_of_topic(made.topic, made.match), made.name)
    if len(key) > KEY_LENGTH_MAX:
        return None
    whose = (made.topic, made.name, True, "", "", 0, made.match)
    plain = command.Subscribe(*whose, made.selector, made.is_shared, made.no_local, made.client, replace=False)
    is_update = isinstance(made, command.EnsureSubscription) and made.update
    return Standing(key, msgspec.json.encode(plain).decode(), not (made.replace or is_update))


def fallen_of(made: command.Command) -> str | None:
    """The key of the pattern whose subscription this command deletes; None for any other command."""
    if not isinstance(made, command.Unsubscribe) or not is_pattern(made.topic) or made.name.startswith("_"):
        return None
    return key_of(made.topic, made.name)


def subscribe_of(terms: str) -> command.Subscribe:
    return msgspec.json.decode(terms, type=command.Subscribe)
