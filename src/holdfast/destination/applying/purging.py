"""Purging: an administrator throws away what waits in a queue, as after a test, or when a producer ran wild.

    waits, is delayed, is held by a recipient     finished, as if it had been confirmed; a later verdict finds it finished
    is locked by a prepared transaction           finished if that is aborted
    is sent after this command                    stays

The events do not go to the dead ones: nobody wants them. The queue keeps its settings and its receivers.
"""

from __future__ import annotations

from holdfast.destination import command as commands
from holdfast.destination.applying.managing import check_kind
from holdfast.destination.effect import Finished, Purged
from holdfast.destination.name import check_destination
from holdfast.destination.state.queue import EVERYTHING
from holdfast.destination.state.state import Effects, State


def purge(state: State, entry: int, command: commands.Purge, payload: memoryview, effects: Effects) -> int:
    """Purge a queue: how many events were thrown away."""
    check_destination(command.name)
    check_kind(state.catalog.find(command.name), "queue")
    queue = state.catalog.queue(command.name, "")
    if queue.backlog.locks is not None:
        state.transactions.take_after(queue.key, EVERYTHING, None)
    before = queue.backlog.waiting
    finished = Finished(queue.key, queue.backlog.finish(EVERYTHING))
    events = before - queue.backlog.waiting
    if events:
        effects.extend((finished, Purged(queue.key, events)))
        state.forget_unneeded_of(finished)
    return events
