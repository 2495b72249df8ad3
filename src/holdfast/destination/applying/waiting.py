"""Waiting for a Final: which commands would end something that a prepared transaction needs (ADR 25).

    Delete                                        a destination with locked events, or for which a part is held
    Unsubscribe, Remove, Subscribe and its kin    a subscription with locked events
    Subscribe with a selector                     any stage is locked: the selector could not be asked when it is placed
    Abandon                                       the transaction itself, or a stage of it
    Publish                                       of a scope or a stage that is locked
    Detach of a session                           one that owns such a destination or subscription

Other commands pass over what is locked, and do the rest at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from holdfast.destination import command as commands
from holdfast.destination.applying import publishing
from holdfast.destination.state.assembly import is_stage
from holdfast.destination.state.state import State
from holdfast.destination.state.subscription import key_of_topic


def must_wait(state: State, command: commands.Command, payload: memoryview) -> bool:
    check = _CHECKS.get(type(command))
    return check is not None and check(state, command, payload)


def is_kept(state: State, data: commands.Buffer) -> bool:
    """Whether the same command, perhaps of another time, waits already."""
    asked = _bare(data)
    return any(_bare(kept) == asked for _, kept in state.transactions.waiting)


def _bare(data: commands.Buffer) -> tuple[commands.Command, bytes]:
    command, payload = commands.decode(data)
    return replace(command, at_ms=0) if hasattr(command, "at_ms") else command, bytes(payload)


def _delete(state: State, command: commands.Delete, payload: memoryview) -> bool:
    return command.name in state.transactions.names


def _of_subscription(
    state: State, command: commands.Unsubscribe | commands.Remove | commands.SubscribeLike, payload: memoryview
) -> bool:
    return (command.topic, command.name) in state.transactions.backlogs


def _subscribe(state: State, command: commands.Subscribe | commands.EnsureSubscription, payload: memoryview) -> bool:
    if command.selector and state.transactions.stages:
        return True
    return (key_of_topic(command.topic, command.match), command.name) in state.transactions.backlogs


def _abandon(state: State, command: commands.Abandon, payload: memoryview) -> bool:
    if is_stage(command.session):
        return any((command.session, name) in state.transactions.stages for name in publishing.dropped(command, payload))
    found = state.transactions.open.get((command.session, command.assembly))
    return found is not None and found.prepared is not None


def _publish(state: State, command: commands.Publish, payload: memoryview) -> bool:
    locked = state.transactions
    if (command.session, command.scope) in locked.scopes:
        return True
    return any((command.session, name) in locked.stages for name, _ in publishing.read_stages(payload))


def _detach(state: State, command: commands.Detach, payload: memoryview) -> bool:
    session = state.sessions().get(command.session)
    if session is None or command.receiver:
        return False
    needed = state.transactions
    is_needed = any(name in needed.names for name in session.destinations)
    return is_needed or any(key in needed.backlogs for key in session.subscriptions)


_CHECKS: dict[type[commands.Command], Callable[[State, Any, memoryview], bool]] = {
    commands.Delete: _delete,
    commands.Unsubscribe: _of_subscription,
    commands.Remove: _of_subscription,
    commands.SubscribeLike: _of_subscription,
    commands.Subscribe: _subscribe,
    commands.EnsureSubscription: _subscribe,
    commands.Abandon: _abandon,
    commands.Publish: _publish,
    commands.Detach: _detach,
}
