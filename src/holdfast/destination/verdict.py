"""What recipients decide on events they hold, and what the primary gives up on (rules 4 and 5)."""

from __future__ import annotations

from holdfast.destination import command as commands
from holdfast.destination import extent
from holdfast.destination.dead import Death
from holdfast.destination.effect import Finished
from holdfast.destination.queue import Queue, Taken
from holdfast.destination.state import Effects, State
from holdfast.destination.subscription import Subscription
from holdfast.errors import ProtocolError, Refused
from holdfast.event.position import Ranges


def confirm(state: State, entry: int, command: commands.Confirm, payload: memoryview, effects: Effects) -> int:
    """How many events are finished by it."""
    queue = state.catalog.queue(command.destination, command.subscription)
    before = queue.backlog.waiting
    extent.check_place(queue, command.up_to)
    finished = queue.confirm(command.session, read_ranges(command.ranges), command.delivered_up_to, entry)
    if isinstance(queue, Subscription):
        queue.confirmed_up_to = max(queue.confirmed_up_to, command.up_to)
    if finished is not None:
        effects.append(finished)
        state.forget_unneeded_of(finished)
    return before - queue.backlog.waiting


def release(state: State, entry: int, command: commands.Release, payload: memoryview, effects: Effects) -> None:
    queue = state.catalog.queue(command.destination, command.subscription)
    ranges = read_ranges(command.ranges)
    returned = queue.release(command.session, ranges, command.not_before_ms, command.is_counted, entry, command.at_ms)
    if returned is not None:
        effects.append(returned)


def reject(state: State, entry: int, command: commands.Reject, payload: memoryview, effects: Effects) -> None:
    queue = state.catalog.queue(command.destination, command.subscription)
    if queue is state.dead:
        raise Refused("events in the dead queue were given up already; confirm them to remove them, or release them")
    taken = queue.reject(command.session, read_ranges(command.ranges), entry)
    bury(state, queue, taken, Death(*queue.key, command.reason, 0, entry, "rejected", command.at_ms), effects)


def dead(state: State, entry: int, command: commands.Dead, payload: memoryview, effects: Effects) -> None:
    queue = state.catalog.queues.get((command.destination, command.subscription))
    ranges = read_ranges(command.ranges)
    if queue is not None and queue is not state.dead and not state.is_outdated(command.epoch):
        death = Death(*queue.key, command.reason, 0, entry, command.code, command.at_ms)
        bury(state, queue, queue.take(ranges), death, effects)


def bury(state: State, queue: Queue, taken: list[Taken], death: Death, effects: Effects) -> None:
    if taken:
        queue.note_dead(sum(run.last - run.first + 1 for run in taken), death.code)
        effects.append(Finished(queue.key, Ranges.gather((run.first, run.last) for run in taken)))
        effects.extend(state.dead.receive(taken, death))


def read_ranges(data: bytes) -> Ranges:
    try:
        return Ranges.from_bytes(data)
    except ValueError as problem:
        raise ProtocolError(f"a command names positions that cannot be read: {problem}; its sender is broken") from problem
