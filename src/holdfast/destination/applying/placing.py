"""Placing batches: in their producer's order (rule 6), in their destination, or in the dead queue if that is gone (rule 14).

An accepted batch is never refused. A destination that deduplicates does not place an event again that it has taken lately.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from holdfast.destination import command as commands
from holdfast.destination.backlog import bodies as _bodies
from holdfast.destination.batch_traits import traits_of
from holdfast.destination.effect import Died, WindowShortened
from holdfast.destination.state.dead import Death
from holdfast.destination.state.deduplication import Repeated, bits_of, keys_of
from holdfast.destination.state.producers import Batch
from holdfast.destination.state.queue import Taken
from holdfast.destination.state.state import Effects, State
from holdfast.destination.state.topic import Topic
from holdfast.errors import BadName
from holdfast.event import position


def batch(
    state: State, entry: int, command: commands.BatchCommand, payload: memoryview, effects: Effects
) -> tuple[int, int, Repeated] | None:
    client, user = state.producers.whose(command.producer)
    what = (entry, _bodies.events_in(payload), command.destination, traits_of(payload), len(payload), client, payload)
    came = Batch(*what, user=user)
    batches = state.producers.accept(command.producer, command.sequence, came)
    repeated = place_all(state, batches, entry, effects, command.accepted_us // 1000)
    if repeated:
        state.producers.note_repeated(command.producer, repeated)
    if not command.origin:
        return None
    if any(each.entry == entry for each in batches):
        return entry, entry, repeated.get(entry, ())
    # It came before, and was taken then; or it is held back, and its repetitions will be known when it is placed.
    return entry, *state.producers.taken_as(command.producer, command.sequence)


def place_all(
    state: State, batches: Iterable[Batch], at: int, effects: Effects, at_ms: int = 0
) -> dict[int, Repeated]:  # fmt: skip
    """Place batches at a time (0: not known). The answer: events not placed because they are repetitions, by entry."""
    repeated: dict[int, Repeated] = {}
    for placed in batches:
        if placed.entry in state.answers and placed.unwanted is None:
            placed = placed._replace(unwanted=state.answers[placed.entry])
        destination = state.catalog.destinations.get(placed.destination)
        if destination is None or destination is state.dead:
            _bury_unplaced(state, placed, at, effects)
            continue
        unwanted = 0
        if placed.destination in state.deduplications and not placed.is_replay:
            unwanted = _repeated_in(state, placed, at_ms, repeated, effects)
            if unwanted.bit_count() == placed.events:
                state.forget_if_unneeded(placed.entry)
                continue
        if isinstance(destination, Topic):
            effects.extend(destination.place(placed, unwanted))
            state.forget_if_unneeded(placed.entry)
        else:
            effects.append(destination.place(placed, unwanted))
    return repeated


def _repeated_in(state: State, placed: Batch, at_ms: int, repeated: dict[int, Repeated], effects: Effects) -> int:
    """The bits of the events that the destination has taken lately; the others are remembered."""
    known = state.deduplications[placed.destination]
    was_shortened = known.shortened_to_ms is not None
    runs = known.take(placed.keys or keys_of(placed.heads, placed.user), position.of(placed.entry), at_ms)
    if known.shortened_to_ms is not None and not was_shortened:
        effects.append(WindowShortened(placed.destination, known.shortened_to_ms, known.window_ms))
    if runs:
        repeated[placed.entry] = runs
    return bits_of(runs)


def _bury_unplaced(state: State, placed: Batch, at: int, effects: Effects) -> None:
    reason = "nobody may send to the dead queue" if placed.destination == state.dead.name else "no such destination"
    first = position.of(placed.entry)
    unplaced = Taken(first, first + placed.events - 1, 0, placed.events)
    effects.extend(state.dead.receive([unplaced], Death(placed.destination, "", reason, 0, at, "no-destination")))
    effects.append(Died((placed.destination, ""), placed.events, "no-destination"))


def open_producer(
    state: State, entry: int, command: commands.OpenProducer, payload: memoryview, effects: Effects
) -> dict[str, Any]:
    if not command.producer:
        raise BadName("a producer opens under an identifier of its own; its client manager gives it one")
    state.producers.check_user(command.producer, command.user)
    if command.session:
        state.introduce(command.session, entry).producers[command.producer] = None
    producer = state.producers.open(command.producer, command.session, command.is_durable, command.client, command.user)
    place_all(state, state.producers.begin_at(producer, command.first_sequence), entry, effects)
    return producer.answer()


def forget_producer(state: State, entry: int, command: commands.ForgetProducer, payload: memoryview, effects: Effects) -> None:
    producer = state.producers.find(command.producer)
    if command.epoch and (state.is_outdated(command.epoch) or producer is None or producer.ended_at != command.ended_at):
        return  # a former primary said so, or the producer was opened again since
    session = state.sessions().get(producer.session) if producer else None
    if session is not None:
        session.producers.pop(command.producer, None)
    place_all(state, state.producers.forget(command.producer), entry, effects)
