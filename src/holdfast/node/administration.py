"""What a message manager answers about its state as applied: the questions behind `destination list`, `show` and `status`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.errors import BadSetting

if TYPE_CHECKING:
    from holdfast.node.message_manager import MessageManager


def answer(manager: MessageManager, action: str, arguments: dict[str, Any]) -> Any:
    """A value that msgpack can hold; HoldfastError when there is nothing to say."""
    if action == "list":
        return [_with_in_flight(manager, described) for described in manager.directory.list()]
    if action == "describe":
        return _with_in_flight(manager, manager.directory.describe(_text(arguments, "name")))
    if action == "subscriptions":
        return manager.directory.describe(_text(arguments, "topic")).get("subscriptions", [])
    return status(manager)


def _text(arguments: dict[str, Any], argument: str) -> str:
    value = arguments.get(argument)
    if not isinstance(value, str):
        raise BadSetting(f"{argument} must be given, as text", setting=argument)
    return value


def _with_in_flight(manager: MessageManager, described: dict[str, Any]) -> dict[str, Any]:
    """What only the primary knows: how many events are handed out and not confirmed."""
    keys = [key for key in manager.deliverer.deliveries if key[0] == described["name"]]
    return {**described, "in_flight": sum(manager.deliverer.deliveries[key].in_flight for key in keys)}


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
