"""What only a primary says: that it is the primary, and where it has carried stragglers (rules 7 and 9)."""

from __future__ import annotations

from holdfast.destination import bodies as _bodies
from holdfast.destination import command as commands
from holdfast.destination.effect import Claimed
from holdfast.destination.managing import remove
from holdfast.destination.state import Effects, State
from holdfast.destination.subscription import Subscription
from holdfast.errors import Refused


def claim(state: State, entry: int, command: commands.Claim, payload: memoryview, effects: Effects) -> int:
    if command.epoch != state.epoch + 1:
        raise Refused(
            f"'{command.node}' claims epoch {command.epoch}, but epoch {state.epoch} is held by '{state.node}'; "
            f"follow it, and claim epoch {state.epoch + 1} when it is gone",
            epoch=state.epoch,
            node=state.node,
        )
    state.epoch, state.node = command.epoch, command.node
    _end_left_behind(state, effects)
    for backlog in state.catalog.backlogs():
        backlog.begin_epoch()
    effects.append(Claimed(state.epoch, state.node))
    return state.epoch


def _end_left_behind(state: State, effects: Effects) -> None:
    """A shared non-durable subscription goes with its last receiver: one that never got its first goes with its primary."""
    for queue in list(state.catalog.queues.values()):
        if isinstance(queue, Subscription) and queue.goes_with_its_last_receiver and not len(queue.receivers):
            remove(state, queue, "nobody receives", effects)
            state.forget_unneeded()


def carried(state: State, entry: int, command: commands.Carried, payload: memoryview, effects: Effects) -> None:
    _bodies.check_carried(command, payload)
    if not state.is_outdated(command.epoch):
        for each in command.entries:
            if state.catalog.is_needed(each):
                state.bodies.carry(each, entry)
