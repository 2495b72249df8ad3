"""Parts of assemblies, and what is decided on them: committed or abandoned, all or nothing (rule 10, B11).

    Part      held; a repeated one, or one of an assembly that is decided or of a session that is gone, changes nothing
    Commit    everything is checked first: every part is here, every destination exists, every listed event is unfinished and
              its session attached where it waits. Then the batches are placed in the order of their numbers, and what is listed
              is confirmed
    Abandon   the parts are let go

A commit that fails its checks is aborted: that is a decision too, which lets the parts go and is remembered.
"""

from __future__ import annotations

from array import array

from holdfast.destination import bodies as _bodies
from holdfast.destination import command as commands
from holdfast.destination import publishing
from holdfast.destination.assembly import Assembly, Outcome, PartBatch, is_stage
from holdfast.destination.bodies import Large
from holdfast.destination.placing import place_all
from holdfast.destination.producers import Batch
from holdfast.destination.queue import Queue
from holdfast.destination.state import Effects, State
from holdfast.destination.traits import traits_of
from holdfast.destination.verdict import read_ranges
from holdfast.errors import HoldfastError, ProtocolError, Refused, TransactionAborted
from holdfast.event.position import Ranges

ABANDONED = "it was rolled back"
Confirmation = tuple[Queue, Ranges, int]
_BODIES_LENGTH_AT = slice(60, 64)


def part(state: State, entry: int, command: commands.Part, payload: memoryview, effects: Effects) -> None:
    if is_stage(command.session):
        made = publishing.part_of(state, entry, command, payload)
        state.assemblies.add_part(command.session, command.assembly, command.number, entry, len(payload), made)
        return
    if command.session not in state.sessions() or state.assemblies.outcome(command.session, command.assembly) is not None:
        return
    made = _part_batch(entry, command, payload) if command.destination else None
    state.assemblies.add_part(command.session, command.assembly, command.number, entry, len(payload), made)


def _part_batch(entry: int, command: commands.Part, payload: memoryview) -> PartBatch:
    events = _bodies.events_in(payload)
    heads = bytes(payload[: len(payload) - int.from_bytes(payload[_BODIES_LENGTH_AT], "little")])
    came = Batch(entry, events, command.destination, traits_of(payload), len(payload), heads=heads)
    return PartBatch(came, command.fragments, command.fragment_bytes, command.large_bytes)


def commit(
    state: State, entry: int, command: commands.Commit, payload: memoryview, effects: Effects
) -> tuple[int, int, int] | None:
    """(events placed, events confirmed, entry of the first batch)."""
    known = state.assemblies.outcome(command.session, command.assembly)
    if known is not None:
        return _answer(command, known)
    if command.session not in state.sessions():
        raise _aborted(command, "its session is gone")
    assembly = state.assemblies.find(command.session, command.assembly) or Assembly(command.session, command.assembly)
    try:
        confirmations = [_confirmation(state, command.session, settled, entry) for settled in command.settled]
        _check(state, assembly, command.parts)
    except ProtocolError:
        raise
    except HoldfastError as problem:
        outcome = Outcome(reason=problem.sentence)
        state.assemblies.decide(command.session, command.assembly, outcome)
        return _answer(command, outcome)
    return _carry_out(state, entry, command, assembly, confirmations, effects)


def _answer(command: commands.Commit, outcome: Outcome) -> tuple[int, int, int]:
    if outcome.reason:
        raise _aborted(command, outcome.reason)
    return outcome.value


def _aborted(command: commands.Commit, reason: str) -> TransactionAborted:
    return TransactionAborted(
        f"nothing of this transaction happened: {reason}; begin a new one", assembly=command.assembly, session=command.session
    )


# --- checks ----------------------------------------------------------------------------------------------------------


def _confirmation(state: State, session: str, settled: commands.Settled, entry: int) -> Confirmation:
    if not settled.destination:
        raise Refused("the receiver that held what it confirms is not attached any more")
    queue = state.catalog.queue(settled.destination, settled.subscription)
    ranges = read_ranges(settled.ranges)
    queue.check(session, ranges, entry)
    queue.check_position(settled.delivered_up_to, entry)
    listed = sum(last - first + 1 for first, last in ranges)
    if listed != sum(last - first + 1 for first, last in queue.backlog.unfinished(ranges)):
        raise Refused(f"something it confirms of {queue.title} is finished already, by another recipient or a limit")
    return queue, ranges, settled.delivered_up_to


def _check(state: State, assembly: Assembly, parts: int) -> None:
    if len(assembly.entries) > parts:
        raise Refused(f"{len(assembly.entries)} parts were sent and the commit names {parts}")
    if missing := assembly.missing(parts):
        raise Refused(f"part {missing} of {parts} is missing")
    used: set[int] = set()  # only asked for what is in it, never gone through
    for made in assembly.in_order():
        destination = made.batch.destination
        if destination == state.dead.name:
            raise Refused("nobody may send to the dead queue")
        state.catalog.find(destination)
        if made.is_large:
            _check_large(assembly, made, used)


def _check_large(assembly: Assembly, made: PartBatch, used: set[int]) -> None:
    first, last = made.fragments
    numbers = range(first, last + 1)
    if made.batch.events != 1 or not 1 <= first <= last <= len(assembly.entries):
        raise Refused(f"a large event names parts {first} to {last} as its body, which are not there")
    if any(number in used or number in assembly.batches for number in numbers):
        raise Refused("a large event names parts as its body that are something else already")
    used.update(numbers)
    sizes = assembly.sizes[first - 1 : last]
    is_even = sizes[:-1].count(made.fragment_bytes) == len(sizes) - 1 and 0 < sizes[-1] <= made.fragment_bytes
    if not is_even or sum(sizes) != made.large_bytes:
        raise Refused(f"the fragments of a large event are {sum(sizes)} bytes and not {made.large_bytes} in equal parts")


# --- carrying it out -------------------------------------------------------------------------------------------------


def _carry_out(
    state: State, entry: int, command: commands.Commit, assembly: Assembly, confirmations: list[Confirmation], effects: Effects
) -> tuple[int, int, int]:
    made = assembly.in_order()
    batches = [each.batch._replace(client=command.client) for each in made]
    for each in made:
        if each.is_large:
            fragments = array("Q", assembly.entries[each.fragments[0] - 1 : each.fragments[1]])
            state.bodies.add_large(each.batch.entry, Large(fragments, each.fragment_bytes, each.large_bytes))
    confirmed = 0
    for queue, ranges, delivered_up_to in confirmations:
        finished = queue.confirm(command.session, ranges, delivered_up_to, entry)
        if finished is not None:
            confirmed += sum(last - first + 1 for first, last in finished.ranges)
            effects.append(finished)
            state.forget_unneeded_of(finished)
    value = (sum(batch.events for batch in batches), confirmed, batches[0].entry if batches else 0)
    state.assemblies.decide(command.session, command.assembly, Outcome(value))
    place_all(state, batches, entry, effects)
    return value


def abandon(state: State, entry: int, command: commands.Abandon, payload: memoryview, effects: Effects) -> bool:
    """Whether nothing of it happened: false when it was committed before."""
    if is_stage(command.session):
        return publishing.drop(state, command, payload)
    known = state.assemblies.outcome(command.session, command.assembly)
    if known is not None:
        return bool(known.reason)
    if command.session in state.sessions() and not state.is_outdated(command.epoch):
        state.assemblies.decide(command.session, command.assembly, Outcome(reason=ABANDONED))
    return True
