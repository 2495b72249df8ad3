"""Waiting for a Final: which commands would end something that a prepared transaction needs (ADR 25).

    Delete                                        a destination with locked events, or for which a part is held
    Unsubscribe, Remove, Subscribe and its kin    a subscription with locked events
    Abandon                                       the transaction itself
    Detach of a session                           one that owns such a destination or subscription

Other commands pass over what is locked, and do the rest at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from holdfast.destination import command as commands
from holdfast.destination.state.state import State
from holdfast.destination.state.subscription import key_of_topic


def must_wait(state: State, command: commands.Command) -> bool:
    check = _CHECKS.get(type(command))
    return check is not None and check(state, command)


def _delete(state: State, command: commands.Delete) -> bool:
    return command.name in state.transactions.names


def _of_subscription(state: State, command: commands.Unsubscribe | commands.Remove | commands.SubscribeLike) -> bool:
    return (command.topic, command.name) in state.transactions.backlogs


def _subscribe(state: State, command: commands.Subscribe | commands.EnsureSubscription) -> bool:
    return (key_of_topic(command.topic, command.match), command.name) in state.transactions.backlogs


def _abandon(state: State, command: commands.Abandon) -> bool:
    found = state.transactions.open.get((command.session, command.assembly))
    return found is not None and found.prepared is not None


def _detach(state: State, command: commands.Detach) -> bool:
    session = state.sessions().get(command.session)
    if session is None or command.receiver:
        return False
    needed = state.transactions
    is_needed = any(name in needed.names for name in session.destinations)
    return is_needed or any(key in needed.backlogs for key in session.subscriptions)


_CHECKS: dict[type[commands.Command], Callable[[State, Any], bool]] = {
    commands.Delete: _delete,
    commands.Unsubscribe: _of_subscription,
    commands.Remove: _of_subscription,
    commands.SubscribeLike: _of_subscription,
    commands.Subscribe: _subscribe,
    commands.EnsureSubscription: _subscribe,
    commands.Abandon: _abandon,
    commands.Detach: _detach,
}
