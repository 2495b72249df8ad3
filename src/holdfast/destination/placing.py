"""Placing batches: in their producer's order (rule 6), where they belong, or with the dead when nowhere is left (rule 14).

What was accepted is never refused: a batch whose destination is gone waits in the dead queue.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from holdfast.destination import bodies as _bodies
from holdfast.destination import command as commands
from holdfast.destination.dead import Death
from holdfast.destination.producers import Batch
from holdfast.destination.queue import Taken
from holdfast.destination.state import Effects, State
from holdfast.destination.topic import Topic
from holdfast.destination.traits import traits_of
from holdfast.errors import BadName
from holdfast.event import position


def batch(state: State, entry: int, command: commands.BatchCommand, payload: memoryview, effects: Effects) -> None:
    client = state.producers.client_of(command.producer)
    came = Batch(entry, _bodies.events_in(payload), command.destination, traits_of(payload), len(payload), client, payload)
    place_all(state, state.producers.accept(command.producer, command.sequence, came), entry, effects)


def place_all(state: State, batches: Iterable[Batch], at: int, effects: Effects) -> None:
    for placed in batches:
        destination = state.catalog.destinations.get(placed.destination)
        if destination is None or destination is state.dead:
            _bury_unplaced(state, placed, at, effects)
        elif isinstance(destination, Topic):
            effects.extend(destination.place(placed))
            state.forget_if_unneeded(placed.entry)
        else:
            effects.append(destination.place(placed))


def _bury_unplaced(state: State, placed: Batch, at: int, effects: Effects) -> None:
    reason = "nobody may send to the dead queue" if placed.destination == state.dead.name else "no such destination"
    first = position.of(placed.entry)
    unplaced = Taken(first, first + placed.events - 1, 0, placed.events)
    effects.extend(state.dead.receive([unplaced], Death(placed.destination, "", reason, 0, at, "no-destination")))


def open_producer(
    state: State, entry: int, command: commands.OpenProducer, payload: memoryview, effects: Effects
) -> dict[str, Any]:
    if not command.producer:
        raise BadName("a producer opens under an identifier of its own; its client manager gives it one")
    if command.session:
        state.introduce(command.session, entry).producers[command.producer] = None
    producer = state.producers.open(command.producer, command.session, command.is_durable, command.client)
    place_all(state, state.producers.begin_at(producer, command.first_sequence), entry, effects)
    return producer.answer()


def forget_producer(state: State, entry: int, command: commands.ForgetProducer, payload: memoryview, effects: Effects) -> None:
    producer = state.producers.find(command.producer)
    session = state.sessions().get(producer.session) if producer else None
    if session is not None:
        session.producers.pop(command.producer, None)
    place_all(state, state.producers.forget(command.producer), entry, effects)
