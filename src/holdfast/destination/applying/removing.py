"""Removing a subscription that has passed a limit of its terms, instead of holding producers back (see `removal`).

The primary found it; meanwhile its recipient may have caught up, or somebody may have made it anew. So everything is checked
again here, from the state alone: a replica comes to the same end.
"""

from __future__ import annotations

from holdfast.destination import command as commands
from holdfast.destination.applying.managing import remove
from holdfast.destination.effect import SubscriptionRemoved
from holdfast.destination.state.state import Effects, State
from holdfast.destination.state.subscription import Subscription
from holdfast.errors import SubscriptionRemoved as Removed


def remove_past_limit(state: State, entry: int, command: commands.Remove, payload: memoryview, effects: Effects) -> bool:
    """Remove a subscription if it is still past a limit: whether it was."""
    found = state.catalog.queues.get((command.topic, command.name))
    if not isinstance(found, Subscription) or found.made_at != command.made_at or state.is_outdated(command.epoch):
        return False
    passed = found.limit_passed(command.oldest)
    if not passed:
        return False
    waiting = found.backlog.waiting
    reason = f"{found.title} was removed with all that waited in it, as its terms say: {passed}; subscribe again for new events"
    remove(state, found, reason, effects, Removed.code)
    effects.append(SubscriptionRemoved(found.key, waiting, passed))
    state.forget_unneeded()
    return True
