"""The actions of administration: one table for everyone who asks, over a link (`Manage`) or by an event to `_ADMIN`.

    questions   answered from the state as applied (`administration`)      list, describe, subscriptions, status
    commands    appended to the channel, answered when applied             create, configure, delete, subscribe, unsubscribe

Arguments come from outside: each is checked here, before anything gets into the channel.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from holdfast.destination import command
from holdfast.destination.settings import Settings
from holdfast.destination.subscription import key_of_topic
from holdfast.errors import BadSetting, HoldfastError
from holdfast.event.selector import parse_optional
from holdfast.node.administration import QUESTIONS, match_of

# (origin, token) -> the command, for whoever waits for its answer.
Maker = Callable[[str, int], command.Command]
# (arguments, now in ms) -> Maker
Prepare = Callable[[dict[str, Any], int], Maker]

# How the delays of a destination are given, in seconds, and how they are kept.
_IN_SECONDS = {"redelivery_delay": "redelivery_delay_ms", "redelivery_delay_max": "redelivery_delay_max_ms"}
SETTINGS = (
    "redelivery_limit", "redelivery_delay", "redelivery_factor", "redelivery_delay_max", "events_max", "bytes_max", "low_percent",
)  # fmt: skip


def settings_of(given: dict[str, Any]) -> tuple[Settings, list[str]]:
    """The settings among these arguments, and which ones were given; BadSetting for what is none."""
    found = {_IN_SECONDS.get(name, name): _value(name, given[name]) for name in SETTINGS if name in given}
    return Settings(**found), list(found)


def _value(name: str, value: Any) -> int:
    if name not in _IN_SECONDS:
        return value  # type: ignore[no-any-return]  # checked by Settings
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e12:
        raise BadSetting(f"{name} {value!r} is not a number of seconds; give 0 for none", setting=name)
    return round(value * 1000)


def _create(given: dict[str, Any], now_ms: int) -> Maker:
    kind = given.get("kind")
    if kind not in ("queue", "topic"):
        raise BadSetting(f"a destination is a queue or a topic, not {kind!r}", kind=str(kind))
    settings, _ = settings_of(given)
    created = text(given, "name")
    return lambda origin, token: command.Create(created, kind, settings, False, origin, token)


def _configure(given: dict[str, Any], now_ms: int) -> Maker:
    settings, changed = settings_of(given)
    configured = text(given, "name")
    if not changed:
        raise BadSetting(f"nothing to change was given; give one of {', '.join(SETTINGS)}")
    return lambda origin, token: command.Configure(configured, settings, origin, token, changed)


def _delete(given: dict[str, Any], now_ms: int) -> Maker:
    deleted = text(given, "name")
    return lambda origin, token: command.Delete(deleted, origin, token, now_ms)


def _subscribe(given: dict[str, Any], now_ms: int) -> Maker:
    topic, subscription = text(given, "topic"), text(given, "name")
    match, selector = match_of(given), given.get("selector", "")
    parse_optional(selector)
    key_of_topic(topic, match)
    is_shared, no_local = _flag(given, "shared"), _flag(given, "no_local")
    return lambda origin, token: command.Subscribe(
        topic, subscription, True, "", origin, token, match, selector, is_shared, no_local
    )


def _unsubscribe(given: dict[str, Any], now_ms: int) -> Maker:
    topic, subscription = key_of_topic(text(given, "topic"), match_of(given)), text(given, "name")
    return lambda origin, token: command.Unsubscribe(topic, subscription, origin, token)


def _flag(given: dict[str, Any], argument: str) -> bool:
    value = given.get(argument, False)
    if not isinstance(value, bool):
        raise BadSetting(f"{argument} is true or false, not {value!r}", setting=argument)
    return value


def text(given: dict[str, Any], argument: str) -> str:
    value = given.get(argument)
    if not isinstance(value, str):
        raise BadSetting(f"{argument} must be given, as text", setting=argument)
    return value


COMMANDS: dict[str, Prepare] = {
    "create": _create,
    "configure": _configure,
    "delete": _delete,
    "subscribe": _subscribe,
    "unsubscribe": _unsubscribe,
}


def no_such_action(action: str) -> HoldfastError:
    known = ", ".join(sorted({*QUESTIONS, *COMMANDS}))
    return BadSetting(f"there is no action {action!r}; there are: {known}", action=action)
