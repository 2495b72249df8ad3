"""Ensuring: a destination or durable subscription is there as a program wants it, whoever comes first and however often it asks.

    there is none                               created
    one that nobody has configured              takes the settings: the producer often comes first
    one whose settings, as given, agree         left as it is
    one whose settings differ                   refused, naming each with both values; with `update` they are changed

Only what is given is compared. Two programs that ensure at the same time are two commands of one channel: the second finds what
the first made.
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec.structs import replace

from holdfast.destination import command as commands
from holdfast.destination.applying import subscribing
from holdfast.destination.applying.managing import check_kind, make, note_revision, set_settings
from holdfast.destination.effect import BacklogCreated
from holdfast.destination.name import check_destination
from holdfast.destination.removal import NAMES as LIMIT_NAMES
from holdfast.destination.removal import NO_LIMITS, Limits
from holdfast.destination.settings import changed
from holdfast.destination.state.queue import Queue
from holdfast.destination.state.state import Effects, State
from holdfast.destination.state.subscription import Subscription, key_of_topic
from holdfast.errors import SettingsDiffer
from holdfast.event.selector.selector import stored_selector

Ensured = Literal["created", "changed", "unchanged"]
# The terms of a subscription by the names that people give them.
_TERMS = {"selector": "selector", "shared": "is_shared", "no_local": "no_local"}


def ensure(state: State, entry: int, command: commands.Ensure, payload: memoryview, effects: Effects) -> Ensured:
    """Ensure a destination: what was done."""
    check_destination(command.name)
    asked = command.settings
    changed(asked, asked, command.given)  # refuses a name that there is not
    found = state.catalog.destinations.get(command.name)
    if found is None:
        note_revision(state, command)
        destination = make(state, command.name, command.kind, asked)
        destination.is_unconfigured = not command.given
        if isinstance(destination, Queue):
            effects.append(BacklogCreated(destination.key))
        return "created"
    check_kind(found, command.kind)
    if not command.given:
        note_revision(state, command)
        return "unchanged"
    before = found.settings
    differing = [name for name in command.given if getattr(before, name) != getattr(asked, name)]
    if found.is_unconfigured:
        set_settings(state, found, asked, effects)
        return "changed" if asked != before else "unchanged"
    if differing and not command.update:
        have, want = before.describe(), asked.describe()
        titles = [name.removesuffix("_ms") for name in differing]
        raise _differ(f"{found.kind} '{found.name}'", {title: (have[title], want[title]) for title in titles}, name=found.name)
    note_revision(state, command)
    if not differing:
        return "unchanged"
    set_settings(state, found, changed(before, asked, command.given), effects)
    return "changed"


def ensure_subscription(
    state: State, entry: int, command: commands.EnsureSubscription, payload: memoryview, effects: Effects
) -> Ensured:
    """Ensure a durable subscription: what was done. Terms that are not given are those it has."""
    found = state.catalog.queues.get((key_of_topic(command.topic, command.match), command.name))
    if not isinstance(found, Subscription):
        subscribing.subscribe(state, entry, command, payload, effects)
        return "created"
    before = found.terms.limits
    has: dict[str, Any] = {"selector": found.terms.selector, "shared": found.terms.is_shared, "no_local": found.terms.no_local}
    given = {"selector": _text(command.selector), "shared": command.is_shared, "no_local": command.no_local}
    asked = {name: given[name] if name in command.given else has[name] for name in _TERMS}
    limits = _limits(before, command)
    limits.check()
    has, asked = {**has, **before.describe()}, {**asked, **limits.describe()}
    differing: dict[str, tuple[Any, Any]] = {name: (has[name], asked[name]) for name in has if has[name] != asked[name]}
    if differing and found.is_durable and not command.update:
        raise _differ(found.title, differing, subscription=found.name)
    wanted = replace(command, **{field: asked[name] for name, field in _TERMS.items()}, limits=limits)
    is_new = subscribing.subscribe(state, entry, wanted, payload, effects)
    return "changed" if is_new or limits != before else "unchanged"


def _limits(has: Limits, command: commands.EnsureSubscription) -> Limits:
    """The limits that are asked for: those given, and for the others those that there are."""
    asked = command.limits or NO_LIMITS
    given = {field: getattr(asked, field) for name, field in LIMIT_NAMES.items() if name in command.given}
    return has._replace(**given)


def _text(selector: str) -> str:
    parsed = stored_selector(selector)
    return parsed.text if parsed else ""


def _differ(title: str, differing: dict[str, tuple[Any, Any]], **fields: Any) -> SettingsDiffer:
    named = ", ".join(f"{name} is {_shown(has)} and {_shown(asked)} was asked for" for name, (has, asked) in differing.items())
    what_next = "ask for what it has, or say update=True (--update) to change it"
    if "shared" in differing:
        what_next = (
            "ask for what it has; shared cannot be changed: delete it first, or say update=True, replace=True "
            "(--update --replace), which loses what waits in it"
        )
    return SettingsDiffer(
        f"{title} is there with other settings: {named}; {what_next}",
        **fields,
        **{name: has for name, (has, _) in differing.items()},
        **{f"{name}_asked": asked for name, (_, asked) in differing.items()},
    )


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:g}" if isinstance(value, float) else repr(value) if value != "" else "none"
