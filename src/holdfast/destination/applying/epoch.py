"""Commands of a primary: it claims its epoch, notes events in hand, and carries stragglers forward (rules 5, 7, 9)."""

from __future__ import annotations

from holdfast.destination import command as commands
from holdfast.destination.applying.managing import remove
from holdfast.destination.applying.verdict import read_ranges
from holdfast.destination.backlog import bodies as _bodies
from holdfast.destination.effect import Claimed
from holdfast.destination.state.state import Effects, State
from holdfast.destination.state.subscription import Subscription
from holdfast.errors import Refused


def claim(state: State, entry: int, command: commands.Claim, payload: memoryview, effects: Effects) -> int:
    """Claim the next epoch: the first claim in order has it. Said again by the same process, it is answered again."""
    if command.start and (command.epoch, command.node, command.start) == (state.epoch, state.node, state.start):
        return state.epoch
    if command.epoch != state.epoch + 1:
        raise Refused(
            f"'{command.node}' claims epoch {command.epoch}, but epoch {state.epoch} is held by '{state.node}'; "
            f"follow it, and claim epoch {state.epoch + 1} when it is gone",
            epoch=state.epoch,
            node=state.node,
        )
    state.epoch, state.node, state.start = command.epoch, command.node, command.start
    _end_left_behind(state, effects)
    for queue in state.catalog.used_queues():
        queue.backlog.begin_epoch()
    effects.append(Claimed(state.epoch, state.node, state.start))
    return state.epoch


def _end_left_behind(state: State, effects: Effects) -> None:
    """Remove shared non-durable subscriptions without receivers: one that never got its first receiver goes with its primary."""
    locked = state.transactions.backlogs
    for queue in list(state.catalog.queues.values()):
        if isinstance(queue, Subscription) and queue.goes_with_its_last_receiver and not len(queue.receivers):
            if queue.key in locked:
                continue  # it goes after the Final
            remove(state, queue, "nobody receives", effects)
            state.forget_unneeded()


def in_hand(state: State, entry: int, command: commands.InHand, payload: memoryview, effects: Effects) -> None:
    ranges = read_ranges(command.ranges)
    queue = state.catalog.queues.get(command.backlog)
    if queue is not None and queue.receivers.is_there(command.holder) and not state.is_outdated(command.epoch):
        queue.backlog.note_in_hand(ranges, command.holder)


def carried(state: State, entry: int, command: commands.Carried, payload: memoryview, effects: Effects) -> None:
    _bodies.check_carried(command, payload)
    if not state.is_outdated(command.epoch):
        for each in command.entries:
            if state.catalog.is_needed(each):
                state.bodies.carry(each, entry)
