"""What a message manager answers about its state as applied: the questions behind `destination list`, `show` and `status`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from holdfast.destination.subscription import Match, key_of_topic
from holdfast.errors import BadSetting, NoSuchPosition

if TYPE_CHECKING:
    from holdfast.node.message_manager import MessageManager


ACCOUNT = frozenset(("accepted", "confirmed", "dead", "expired"))
# What one answer has at most: a frame then has 4 KiB for each, and the longest queue takes half of one, a subscription 0.2.
PAGE_DESTINATIONS = 250


def answer(manager: MessageManager, action: str, arguments: dict[str, Any]) -> Any:
    """A value that msgpack can hold; HoldfastError when there is nothing to say."""
    return QUESTIONS[action](manager, arguments)


def _list(manager: MessageManager, arguments: dict[str, Any]) -> dict[str, Any]:
    """The destinations, a page at a time, and after which name the next page begins; of each all but its account, which
    `describe` gives.
    """
    after = _text(arguments, "after") if "after" in arguments else ""
    found = [{**described, **_now(manager, described["name"])} for described in manager.directory.list(after, PAGE_DESTINATIONS)]
    rows = [{name: value for name, value in each.items() if name not in ACCOUNT} for each in found]
    return {"destinations": rows, "next": rows[-1]["name"] if len(rows) == PAGE_DESTINATIONS else None}


def _describe(manager: MessageManager, arguments: dict[str, Any]) -> dict[str, Any]:
    described = manager.directory.describe(_text(arguments, "name"))
    return {**described, **_now(manager, described["name"])}


def _now(manager: MessageManager, name: str) -> dict[str, Any]:
    """What only the primary knows: how many events are handed out and not confirmed, and whether it is full."""
    deliveries = manager.deliverer.deliveries
    in_flight = sum(deliveries[queue.key].in_flight for queue in manager.directory.catalog.queues_of(name))
    return {"in_flight": in_flight, "is_blocked": manager.flow.is_blocked(name)}


def _subscriptions(manager: MessageManager, arguments: dict[str, Any]) -> list[dict[str, Any]]:
    return manager.directory.catalog.subscriptions(key_of_topic(_text(arguments, "topic"), match_of(arguments)))


def match_of(arguments: dict[str, Any]) -> Match:
    """How the topic is meant: by its name, or as a pattern."""
    match = arguments.get("match", "name")
    if match not in ("name", "glob", "regex"):
        raise BadSetting(f"match {match!r} is not name, glob or regex; leave it out for a topic by its name", setting="match")
    return match  # type: ignore[no-any-return]


def _dead_cursor(manager: MessageManager, arguments: dict[str, Any]) -> int:
    """Where a browser of the dead queue begins to find the event at a position."""
    position = arguments.get("position")
    if type(position) is not int or not manager.directory.dead.backlog.is_waiting(position):
        raise NoSuchPosition(f"no dead event waits at position {position!r}; look again at those that do")
    return manager.directory.dead.backlog.place_of(position)


def _text(arguments: dict[str, Any], argument: str) -> str:
    value = arguments.get(argument)
    if not isinstance(value, str):
        raise BadSetting(f"{argument} must be given, as text", setting=argument)
    return value


def status(manager: MessageManager, arguments: dict[str, Any] | None = None) -> dict[str, Any]:
    channel = manager.channel
    pressure = channel.pressure
    return {
        "node": manager.name,
        "is_primary": manager.is_primary,
        "epoch": manager.directory.epoch,
        "applied": manager.applied,
        "durable": channel.durable,
        "first": channel.first,
        "destinations": len(manager.directory.catalog.destinations),
        "sessions": len(list(manager.directory.sessions())),
        "stages": manager.directory.assemblies.staged.stages,
        "staged_bytes": manager.directory.assemblies.staged.bytes,
        "events_delivered": manager.deliverer.events_delivered,
        "blocked": manager.flow.blocked(),
        "is_short": pressure.is_short,
        "free_bytes": pressure.free_bytes,
        "events_reserve_bytes": pressure.events_reserve_bytes,
        "upkeep_reserve_bytes": pressure.upkeep_reserve_bytes,
        "reason": pressure.reason,
    }


QUESTIONS: dict[str, Callable[[MessageManager, dict[str, Any]], Any]] = {
    "list": _list,
    "describe": _describe,
    "subscriptions": _subscriptions,
    "dead_cursor": _dead_cursor,
    "status": status,
}
