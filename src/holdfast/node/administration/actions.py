"""The actions of administration: one table for requests over a link (`Manage`) and by events to `_ADMIN`.

    questions   answered from the state as applied (`messages.answers`)   list, describe, subscriptions, status …
    commands    appended to the channel, answered when applied            create, ensure, configure, delete, subscribe …

Arguments come from outside: `arguments` reads them before anything is appended.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from holdfast.cluster.places import Places
from holdfast.destination import command
from holdfast.destination.name import ADMIN
from holdfast.destination.settings import of_first_use
from holdfast.destination.state.queue import EVERYTHING
from holdfast.errors import BadSetting, HoldfastError
from holdfast.event.selector.selector import parse_optional
from holdfast.node.administration import arguments

# (origin, token) -> the command; origin and token say who waits for its answer.
Maker = Callable[[str, int], command.Command]
# (arguments, now in ms) -> Maker
Prepare = Callable[[Any, int], Maker]


def _create(asked: arguments.Create, now_ms: int) -> Maker:
    settings, _ = asked.settings()
    return lambda origin, token: command.Create(asked.name, asked.kind, settings, False, origin, token)


def _configure(asked: arguments.Configure, now_ms: int) -> Maker:
    settings, changed = asked.settings()
    if not changed:
        raise BadSetting(f"nothing to change was given; give one of {', '.join(arguments.SETTINGS)}")
    return lambda origin, token: command.Configure(asked.name, settings, origin, token, changed)


def _ensure(asked: arguments.Ensure, now_ms: int) -> Maker:
    settings, given = asked.settings()
    whole = of_first_use(asked.kind, settings, given)
    return lambda origin, token: command.Ensure(asked.name, asked.kind, whole, given, asked.update, origin, token)


def _delete(asked: arguments.Delete, now_ms: int) -> Maker:
    return lambda origin, token: command.Delete(asked.name, origin, token, now_ms, asked.force)


def _purge(asked: arguments.Purge, now_ms: int) -> Maker:
    return lambda origin, token: command.Purge(asked.name, origin, token)


def _subscribe(asked: arguments.Subscribe, now_ms: int) -> Maker:
    parse_optional(asked.selector)
    limits, _ = asked.limits()
    return lambda origin, token: command.Subscribe(
        asked.topic,
        asked.name,
        True,
        "",
        origin,
        token,
        asked.match,
        asked.selector,
        asked.shared,
        asked.no_local,
        replace=asked.replace,
        limits=limits,
    )


def _subscribe_like(asked: arguments.SubscribeLike, now_ms: int) -> Maker:
    return lambda origin, token: command.SubscribeLike(asked.key, asked.name, asked.like, asked.replace, origin, token)


def _ensure_subscription(asked: arguments.EnsureSubscription, now_ms: int) -> Maker:
    parse_optional(asked.selector or "")
    limits, limited = asked.limits()
    given = [*(name for name in ("selector", "shared", "no_local") if getattr(asked, name) is not None), *limited]
    return lambda origin, token: command.EnsureSubscription(
        asked.topic,
        asked.name,
        True,
        "",
        origin,
        token,
        asked.match,
        asked.selector or "",
        bool(asked.shared),
        bool(asked.no_local),
        replace=asked.replace,
        given=given,
        update=asked.update,
        limits=limits,
    )


def _unsubscribe(asked: arguments.Unsubscribe, now_ms: int) -> Maker:
    return lambda origin, token: command.Unsubscribe(asked.key, asked.name, origin, token, asked.force)


def _empty(asked: arguments.Empty, now_ms: int) -> Maker:
    """Empty `_ADMIN`, from which only the node receives. Events elsewhere are received, or deleted with their destination."""
    if asked.name != ADMIN:
        raise BadSetting(
            f"only {ADMIN!r} is emptied so, not {asked.name!r}; receive what waits there, or purge it", setting="name"
        )
    reason = "it was given up before it was carried out"
    return lambda origin, token: command.Dead(0, ADMIN, "", EVERYTHING.to_bytes(), reason, "rejected", now_ms, origin, token)


def with_revision(made: command.Command, places: Places | None) -> command.Command:
    """A command that creates a destination, with the revision of its place (rule 9); any other as it is."""
    if places is None or not isinstance(made, command.Create | command.Ensure):
        return made
    return msgspec.structs.replace(made, revision=places.revision_of(made.name))


QUESTIONS = frozenset(("list", "describe", "subscriptions", "all_subscriptions", "dead_cursor", "status", "transactions"))

COMMANDS: dict[str, Prepare] = {
    "create": _create,
    "configure": _configure,
    "ensure": _ensure,
    "delete": _delete,
    "purge": _purge,
    "empty": _empty,
    "subscribe": _subscribe,
    "subscribe_like": _subscribe_like,
    "ensure_subscription": _ensure_subscription,
    "unsubscribe": _unsubscribe,
}


def no_such_action(action: str) -> HoldfastError:
    known = ", ".join(sorted({*QUESTIONS, *COMMANDS}))
    return BadSetting(f"there is no action {action!r:.40}; there are: {known}", action=action[:40])
