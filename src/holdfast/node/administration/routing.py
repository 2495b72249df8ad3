"""Routing: which message managers an action of administration is for (ADR 22). Pure.

on a destination, by name          the manager of its place; a place is reserved for one that is made
on a pattern, and on `_DMQ`        every manager
list, all_subscriptions, status,   every manager
transactions
reading by place, temporary ones,  the manager of the session that asks: its client has found it, or chose it
stages
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from holdfast.cluster.places import EVERYWHERE, Failed, Places
from holdfast.node.administration import arguments, cluster_arguments
from holdfast.node.administration.touched import Arguments

Then = Callable[[Sequence[str]], None]

# Actions that make a destination which is not there.
MAKING = frozenset(("create", "ensure", "ensure_subscription", "subscribe"))
_WHOLE = (arguments.List, arguments.AllSubscriptions, arguments.Status, cluster_arguments.Transactions)


def route(places: Places, own: str, action: str, asked: Arguments, then: Then, failed: Failed) -> None:
    """Call `then` with the names of the managers, or `failed`, perhaps before this returns."""
    if isinstance(asked, _WHOLE):
        then(places.managers)
        return
    where = _where(asked)
    if where is None:
        then((own,))
    elif action in MAKING:
        places.reserve(where, lambda manager: then(_each(places, manager)), failed, is_created=action == "create")
    else:  # a destination without a place is nowhere: the first manager says so

        def look() -> None:
            then(_each(places, places.find(where) or places.managers[0]))

        if places.find(where) is not None or not places.learn(where, False, look):
            look()


def _each(places: Places, manager: str) -> Sequence[str]:
    return places.managers if manager == EVERYWHERE else (manager,)


def _where(asked: Arguments) -> str | None:
    """The destination, or the pattern as in keys; None for what is asked of the session's own manager."""
    if isinstance(asked, arguments.OfSubscription):
        return None
    if isinstance(asked, arguments.Named):
        return asked.name
    return asked.key if isinstance(asked, arguments.OfTopic) else None
