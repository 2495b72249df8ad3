"""What a message manager answers about its state as applied: the questions behind `destination list`, `show` and `status`."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from holdfast.errors import BadSetting

if TYPE_CHECKING:
    from holdfast.node.message_manager import MessageManager


def answer(manager: MessageManager, action: str, arguments: dict[str, Any]) -> Any:
    """A value that msgpack can hold; HoldfastError when there is nothing to say."""
    if action == "list":
        in_flight = _in_flight(manager)
        return [{**described, "in_flight": in_flight[described["name"]]} for described in manager.directory.list()]
    if action == "describe":
        described = manager.directory.describe(_text(arguments, "name"))
        return {**described, "in_flight": _in_flight(manager)[described["name"]]}
    if action == "subscriptions":
        return manager.directory.catalog.topic(_text(arguments, "topic")).describe()["subscriptions"]
    return status(manager)


def _text(arguments: dict[str, Any], argument: str) -> str:
    value = arguments.get(argument)
    if not isinstance(value, str):
        raise BadSetting(f"{argument} must be given, as text", setting=argument)
    return value


def _in_flight(manager: MessageManager) -> Counter[str]:
    """What only the primary knows: how many events of each destination are handed out and not confirmed."""
    found: Counter[str] = Counter()
    for (destination, _), delivery in manager.deliverer.deliveries.items():
        found[destination] += delivery.in_flight
    return found


def status(manager: MessageManager) -> dict[str, Any]:
    channel = manager.channel
    pressure = channel.pressure
    return {
        "node": manager.name,
        "is_primary": manager.is_primary,
        "epoch": manager.directory.epoch,
        "applied": manager.applied,
        "durable": channel.durable,
        "first": channel.first,
        "destinations": len(manager.directory.list()),
        "sessions": len(list(manager.directory.sessions())),
        "events_delivered": manager.deliverer.events_delivered,
        "is_short": pressure.is_short,
        "free_bytes": pressure.free_bytes,
        "events_reserve_bytes": pressure.events_reserve_bytes,
        "upkeep_reserve_bytes": pressure.upkeep_reserve_bytes,
        "reason": pressure.reason,
    }
