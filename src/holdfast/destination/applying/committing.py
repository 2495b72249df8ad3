"""Committing: the parts of assemblies are committed or abandoned, all or nothing (rule 10, B11).

    Part      held; a repeated one, or one of an assembly that is decided or of a session that is gone, changes nothing
    Commit    everything is checked first: every part is here, every destination exists, every listed event is unfinished and
              its session attached where it waits. Then the batches are placed in the order of their numbers, and the listed
              events are confirmed
    Abandon   the parts are let go

A commit that fails its checks is aborted. That decides it too: the parts are let go, and the outcome is remembered.
"""

from __future__ import annotations

from array import array

from holdfast.destination import command as commands
from holdfast.destination.applying import publishing
from holdfast.destination.applying.placing import place_all
from holdfast.destination.applying.verdict import read_ranges
from holdfast.destination.backlog import bodies as _bodies
from holdfast.destination.backlog.bodies import Large
from holdfast.destination.batch_traits import traits_of
from holdfast.destination.state.assembly import Assembly, Outcome, PartBatch, is_stage
from holdfast.destination.state.deduplication import Repeated, bits_of
from holdfast.destination.state.producers import Batch
from holdfast.destination.state.queue import Queue
from holdfast.destination.state.receivers import user_of
from holdfast.destination.state.state import Effects, State
from holdfast.errors import HoldfastError, ProtocolError, Refused, TransactionAborted
from holdfast.event.batch import without_bodies
from holdfast.event.position import Ranges

ABANDONED = "it was rolled back"
Confirmation = tuple[Queue, Ranges, int]


def part(state: State, entry: int, command: commands.Part, payload: memoryview, effects: Effects) -> None:
    if is_stage(command.session):
        if (command.session, command.assembly) in state.transactions.stages:
            return
        made = publishing.part_of(state, entry, command, payload)
        state.assemblies.add_part(command.session, command.assembly, command.number, entry, len(payload), made)
        return
    key, transactions = (command.session, command.assembly), state.transactions
    if command.session not in state.sessions() or key in transactions.open or key in transactions.outcomes:
        return
    if state.assemblies.outcome(*key) is not None:
        return
    made = _part_batch(entry, command, payload) if command.destination else None
    state.assemblies.add_part(command.session, command.assembly, command.number, entry, len(payload), made)


def _part_batch(entry: int, command: commands.Part, payload: memoryview) -> PartBatch:
    events = _bodies.events_in(payload)
    came = Batch(
        entry, events, command.destination, traits_of(payload), len(payload), heads=without_bodies(payload),
        is_replay=command.is_replay,
    )  # fmt: skip
    return PartBatch(came, command.fragments, command.fragment_bytes, command.large_bytes)


def commit(state: State, entry: int, command: commands.Commit, payload: memoryview, effects: Effects) -> tuple[int, ...] | None:
    """(events placed, events confirmed, entry of the first batch); and the position of the first event, if it is a repetition."""
    known = state.assemblies.outcome(command.session, command.assembly)
    if known is None and (state.transactions.open or state.transactions.outcomes):
        known = _known_over_several(state, command)
    if known is not None:
        return _answer(command, known)
    if command.session not in state.sessions():
        raise _aborted(command, "its session is gone")
    assembly = state.assemblies.find(command.session, command.assembly) or Assembly(command.session, command.assembly)
    try:
        confirmations = [confirmation_of(state, command.session, settled, entry) for settled in command.settled]
        check_parts(state, assembly, command.parts)
    except ProtocolError:
        raise
    except HoldfastError as problem:
        outcome = Outcome(reason=problem.sentence)
        state.assemblies.decide(command.session, command.assembly, outcome)
        return _answer(command, outcome)
    outcome = carry_out(state, entry, assembly, confirmations, command.client, command.at_ms, effects)
    state.assemblies.decide(command.session, command.assembly, outcome)
    return _answer(command, outcome)


def _known_over_several(state: State, command: commands.Commit) -> Outcome | None:
    """The outcome of a transaction over several managers; Refused while it is prepared."""
    key = (command.session, command.assembly)
    known = state.transactions.outcome(key)
    if known is None and key in state.transactions.open:
        raise Refused(f"transaction '{command.assembly}' is prepared at several managers; its Final decides it")
    return known


def _answer(command: commands.Commit, outcome: Outcome) -> tuple[int, ...]:
    if outcome.reason:
        raise _aborted(command, outcome.reason)
    return (*outcome.value, outcome.repeated) if outcome.repeated else outcome.value


def _aborted(command: commands.Commit, reason: str) -> TransactionAborted:
    return TransactionAborted(
        f"nothing of this transaction happened: {reason}; begin a new one", assembly=command.assembly, session=command.session
    )


# --- checks ----------------------------------------------------------------------------------------------------------


def confirmation_of(state: State, session: str, settled: commands.Settled, entry: int) -> Confirmation:
    """The queue and the positions that are to be confirmed; refused unless all wait, and the session is attached there."""
    if not settled.destination:
        raise Refused("the receiver that held what it confirms is not attached any more")
    queue = state.catalog.queue(settled.destination, settled.subscription)
    ranges = read_ranges(settled.ranges)
    queue.check(session, ranges, entry)
    queue.check_position(settled.delivered_up_to, entry)
    free = ranges if queue.backlog.locks is None else queue.backlog.locks.outside(ranges)
    if lost := ranges.without(Ranges.gather(queue.backlog.unfinished(free))):
        how = (
            "by another recipient or a limit" if free is ranges else "by another recipient or a limit, or locked by a transaction"
        )
        raise Refused(f"{lost.count} of the events it confirms of {queue.title} are finished already, {how} ({lost.told()})")
    return queue, ranges, settled.delivered_up_to


def check_parts(state: State, assembly: Assembly, parts: int) -> None:
    """Refused unless all parts are here and their destinations exist."""
    if len(assembly.entries) > parts:
        raise Refused(f"{len(assembly.entries)} parts were sent and the commit names {parts}")
    if missing := assembly.missing(parts):
        raise Refused(f"part {missing} of {parts} is missing")
    used: set[int] = set()  # asked, but never iterated: its order differs between replicas
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


def carry_out(
    state: State, entry: int, assembly: Assembly, confirmations: list[Confirmation], client: str, at_ms: int, effects: Effects
) -> Outcome:
    """Place the parts of an assembly and confirm events, after all checks. The parts are let go."""
    made = assembly.in_order()
    batches = [each.batch._replace(client=client, user=user_of(assembly.session)) for each in made]
    for each in made:
        if each.is_large:
            fragments = array("Q", assembly.entries[each.fragments[0] - 1 : each.fragments[1]])
            state.bodies.add_large(each.batch.entry, Large(fragments, each.fragment_bytes, each.large_bytes))
    confirmed = 0
    for queue, ranges, _ in confirmations:
        finished = queue.finish(ranges)
        if finished is not None:
            confirmed += sum(last - first + 1 for first, last in finished.ranges)
            effects.append(finished)
            state.forget_unneeded_of(finished)
    state.assemblies.let_go(assembly.session, assembly.name)
    return _outcome(batches, place_all(state, batches, entry, effects, at_ms), confirmed)


def _outcome(batches: list[Batch], repeated: dict[int, Repeated], confirmed: int) -> Outcome:
    if not repeated:
        return Outcome((sum(batch.events for batch in batches), confirmed, batches[0].entry if batches else 0))
    placed = sum(batch.events - bits_of(repeated.get(batch.entry, ())).bit_count() for batch in batches)
    first = repeated.get(batches[0].entry, ((1, 0, 0),))[0]
    return Outcome((placed, confirmed, batches[0].entry), repeated=first[2] if first[0] == 0 else 0)


def abandon(state: State, entry: int, command: commands.Abandon, payload: memoryview, effects: Effects) -> bool:
    """Whether nothing of the assembly happened: false when it was committed before."""
    if is_stage(command.session):
        return publishing.drop(state, command, payload)
    key = (command.session, command.assembly)
    known = state.assemblies.outcome(*key) or state.transactions.outcome(key)
    if known is not None:
        return bool(known.reason)
    if command.session in state.sessions() and not state.is_outdated(command.epoch):
        state.assemblies.decide(command.session, command.assembly, Outcome(reason=ABANDONED))
    return True
