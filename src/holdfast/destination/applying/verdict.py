"""Verdicts: recipients confirm, release or reject events they hold, and the primary gives events up (rules 4 and 5).

The first verdict on an event counts, in the order of the channel. The second recipient, if the event was given to another
meanwhile, is told: a verdict that says how many events it is about is answered with the events that it took effect on, if these
are not all. A verdict that is said again, because its answer was lost, changes nothing and is answered as before.
"""

from __future__ import annotations

from holdfast.destination import command as commands
from holdfast.destination.effect import Died, Finished, ReturnedOften
from holdfast.destination.state import places
from holdfast.destination.state.dead import Death
from holdfast.destination.state.queue import Queue, Taken
from holdfast.destination.state.state import Effects, State
from holdfast.destination.state.subscription import Subscription
from holdfast.errors import ProtocolError, Refused
from holdfast.event.position import Ranges

Verdict = commands.Confirm | commands.Release | commands.Reject
# Ranges that an answer names at most: half of a frame.
TAKEN_MAX = 32_768
# The answer when it is not known any more which events a verdict took effect on.
NOT_KNOWN: tuple[bytes, ...] = ()


def confirm(
    state: State, entry: int, command: commands.Confirm, payload: memoryview, effects: Effects
) -> int | tuple[bytes, ...]:
    """Confirm events: how many are finished by it; see `_outcome`."""
    queue = state.catalog.queue(command.destination, command.subscription)
    backlog = queue.backlog
    before = backlog.waiting
    if command.up_to:
        places.check_place(queue, command.up_to)
    if (known := _known(queue, command, entry)) is not None:
        return command.which[2] if known else NOT_KNOWN
    finished = queue.confirm(command.session, read_ranges(command.ranges), command.delivered_up_to, entry)
    if isinstance(queue, Subscription):
        queue.confirmed_up_to = max(queue.confirmed_up_to, command.up_to)
    if finished is not None:
        effects.append(finished)
        state.forget_unneeded_of(finished)
    events = before - backlog.waiting
    taken = _outcome(queue, command, events, finished.ranges if finished else Ranges())
    return events if taken is None else taken


def release(
    state: State, entry: int, command: commands.Release, payload: memoryview, effects: Effects
) -> tuple[bytes, ...] | None:
    if command.epoch and state.is_outdated(command.epoch):
        return None
    if command.link and (session := state.sessions().get(command.session)) is not None and command.link < session.link:
        return None
    queue = state.catalog.queue(command.destination, command.subscription)
    ranges = read_ranges(command.ranges)
    if (known := _known(queue, command, entry)) is not None:
        return None if known else NOT_KNOWN
    often = queue.backlog.history.often
    returned = queue.release(command, ranges, entry)
    if returned is not None:
        effects.append(returned)
    if queue.backlog.history.often > often:
        effects.append(ReturnedOften(queue.key, queue.backlog.history.often - often))
    taken = returned.ranges if returned else Ranges()
    return _outcome(queue, command, taken.count, taken)


def reject(state: State, entry: int, command: commands.Reject, payload: memoryview, effects: Effects) -> tuple[bytes, ...] | None:
    queue = state.catalog.queue(command.destination, command.subscription)
    if queue is state.dead:
        raise Refused("events in the dead queue were given up already; confirm them to remove them, or release them")
    if (known := _known(queue, command, entry)) is not None:
        return None if known else NOT_KNOWN
    taken = queue.reject(command.session, read_ranges(command.ranges), entry)
    death = Death(*queue.key, command.reason, 0, entry, command.code or "rejected", command.at_ms)
    bury(state, queue, taken, death, effects)
    ranges = Ranges.gather((run.first, run.last) for run in taken)
    return _outcome(queue, command, ranges.count, ranges)


def _known(queue: Queue, command: Verdict, entry: int) -> bool | None:
    """Whether this verdict was applied before, whole or in part; None for a new one."""
    receiver, number, _ = command.which
    if not number:
        return None
    known = queue.receivers.was_whole((command.session, receiver), number)
    if known is not None:
        queue.check(command.session, read_ranges(command.ranges), entry)
    return known


def _outcome(queue: Queue, command: Verdict, events: int, taken: Ranges) -> tuple[bytes, ...] | None:
    """The events that a verdict took effect on, if these are fewer than it is about; None otherwise."""
    receiver, number, about = command.which
    is_whole = events >= about
    if number and queue.receivers.is_there((command.session, receiver)):
        queue.receivers.note_verdict((command.session, receiver), number, is_whole)
    if is_whole:
        return None
    return (taken.to_bytes(),) if len(taken) <= TAKEN_MAX else NOT_KNOWN


def dead(state: State, entry: int, command: commands.Dead, payload: memoryview, effects: Effects) -> int:
    """Give events up: how many go to the dead queue."""
    taken: list[Taken] = []
    queue = state.catalog.queues.get((command.destination, command.subscription))
    ranges = read_ranges(command.ranges)
    if queue is not None and queue is not state.dead and not state.is_outdated(command.epoch):
        death = Death(*queue.key, command.reason, 0, entry, command.code, command.at_ms)
        taken = queue.take(ranges)
        if queue.backlog.locks is not None:
            state.transactions.take_after(queue.key, ranges, death)
        bury(state, queue, taken, death, effects)
    return sum(run.last - run.first + 1 for run in taken)


def bury(state: State, queue: Queue, taken: list[Taken], death: Death, effects: Effects) -> None:
    if taken:
        events = sum(run.last - run.first + 1 for run in taken)
        queue.note_dead(events, death.code)
        effects.append(Finished(queue.key, Ranges.gather((run.first, run.last) for run in taken)))
        effects.extend(state.dead.receive(taken, death))
        effects.append(Died(queue.key, events, death.code))


def read_ranges(data: bytes) -> Ranges:
    try:
        return Ranges.from_bytes(data)
    except ValueError as problem:
        raise ProtocolError(f"a command names positions that cannot be read: {problem}; its sender is broken") from problem
