"""Two-phase commit: a transaction over several managers is prepared at each, decided at the first, carried out at all of them.

    Prepare     the checks of a commit; then parts and events are locked, until the Final
    Decision    at the first participant: the first one in order counts, a commit only if it is prepared there
    Final       the decision is carried out, once; a repetition is answered as before
    Complete    every Final is applied: the first participant may forget the transaction in time

A publication of stages at several managers is such a transaction, too.

Each is answered with a status: prepared, committed with what a commit is answered with, or aborted with the reason; a decision
with commit, or abort with the reason. ADR 25 has the table of states and commands.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from holdfast.destination import command as commands
from holdfast.destination.applying import publishing
from holdfast.destination.applying.attaching import end_if_left_behind
from holdfast.destination.applying.committing import Confirmation, carry_out, check_parts, confirmation_of
from holdfast.destination.applying.verdict import bury
from holdfast.destination.effect import BacklogKey, Locked, Purged, Unlocked
from holdfast.destination.state.assembly import Assembly, Outcome, is_stage
from holdfast.destination.state.cluster.transactions import Afterwards, Key, Prepared, Publication, Transaction
from holdfast.destination.state.state import Effects, State
from holdfast.errors import HoldfastError, NotPublished, ProtocolError, Refused
from holdfast.event.position import Ranges

Status = tuple[Any, ...]
PREPARED: Status = ("prepared",)
COMMIT: Status = ("commit",)
UNSAID = "it was aborted"
SESSION_GONE = "its session is gone"
IN_DOUBT = "another publication of its scope or of its stages is in doubt; publish it later"


def _status(outcome: Outcome) -> Status:
    return ("aborted", outcome.reason) if outcome.reason else ("committed", *outcome.value, outcome.repeated)


def _known(state: State, key: Key) -> Outcome | None:
    return state.transactions.outcome(key) or state.assemblies.outcome(*key)


def _check_participants(participants: list[str], here: str, keys: Sequence[Key] = (), key: Key | None = None) -> None:
    if not participants or any(one >= other for one, other in pairwise(participants)):
        raise Refused(f"participants are named in ascending order, each once, and not as {participants}")
    if here not in participants:
        raise Refused(f"'{here}' is not one of the participants, which are {', '.join(participants)}")
    if keys and (len(keys) != len(participants) or tuple(keys[participants.index(here)]) != key):
        raise Refused(
            f"a session and an assembly are named for each participant, and here those of the command, not {list(keys)}"
        )


def _check_same(transaction: Transaction, participants: list[str], here: str) -> None:
    if (list(transaction.participants), transaction.here) != (participants, here):
        raise Refused(
            f"transaction '{transaction.key[1]}' has the participants {', '.join(transaction.participants)}, and this is "
            f"'{transaction.here}'; the command names {', '.join(participants)}, and '{here}'"
        )


# --- Prepare ---------------------------------------------------------------------------------------------------------


def prepare(state: State, entry: int, command: commands.Prepare, payload: memoryview, effects: Effects) -> Status:
    key = (command.session, command.assembly)
    _check_participants(command.participants, command.here, command.keys, key)
    transaction = state.transactions.open.get(key)
    if transaction is not None:
        _check_same(transaction, command.participants, command.here)
    known = _known(state, key)
    if known is not None:
        return _status(known)
    if transaction is not None:
        return PREPARED if not is_stage(command.session) else _prepared_stages(state, command)
    if is_stage(command.session):
        return _prepare_stages(state, entry, command, payload)
    if command.session not in state.sessions():
        return _abort_unknown(state, key, SESSION_GONE)
    assembly = state.assemblies.find(*key) or Assembly(*key)
    try:
        confirmations = [confirmation_of(state, command.session, settled, entry) for settled in command.settled]
        check_parts(state, assembly, command.parts)
    except ProtocolError:
        raise
    except HoldfastError as problem:
        return _abort_unknown(state, key, problem.sentence)
    _lock(state, entry, command, assembly, confirmations, effects)
    return PREPARED


def _lock(
    state: State, entry: int, command: commands.Prepare, assembly: Assembly, confirmations: list[Confirmation], effects: Effects
) -> None:
    spans: dict[BacklogKey, list[tuple[int, int]]] = {}
    for queue, ranges, _ in confirmations:
        spans.setdefault(queue.key, []).extend(ranges)
    settled = tuple((key, Ranges.gather(each)) for key, each in spans.items())
    for key, ranges in settled:
        state.backlog(key).lock(ranges)
        effects.append(Locked(key, ranges))
    destinations = dict.fromkeys(made.batch.destination for made in assembly.in_order())
    own, where = (command.session, command.assembly), (command.participants, command.here)
    transaction = Transaction(own, *where, entry, command.at_ms, command.keys)
    transaction.prepared = Prepared(command.client, settled, tuple(destinations), [])
    state.transactions.add(transaction)


def _prepare_stages(state: State, entry: int, command: commands.Prepare, payload: memoryview) -> Status:
    """Prepare a publication. If its checks fail, the stages stay, to be published later, or dropped."""
    key, named = (command.session, command.assembly), publishing.read_stages(payload)
    locked = state.transactions
    is_locked = any((command.session, name) in locked.stages for name, _ in named)
    if is_locked or (command.session, command.scope) in locked.scopes:
        return _abort_unknown(state, key, IN_DOUBT)
    try:
        batches = publishing.checked(state, command, named)
    except NotPublished as problem:
        return _abort_unknown(state, key, problem.sentence)
    destinations = tuple(dict.fromkeys(batch.destination for batch in batches))
    transaction = Transaction(key, command.participants, command.here, entry, command.at_ms, command.keys)
    publication = Publication(command.session, command.scope, command.number, tuple(named))
    transaction.prepared = Prepared(command.client, (), destinations, [], publication)
    state.transactions.add(transaction)
    return _prepared_stages(state, command)


def _prepared_stages(state: State, command: commands.Prepare) -> Status:
    """A publication is prepared: with the highest number that its scope has published before."""
    return (*PREPARED, state.scopes.last((command.session, command.scope)))


def _abort_unknown(state: State, key: Key, reason: str) -> Status:
    """A transaction that is not prepared here is aborted: its parts are let go, and the outcome is remembered."""
    outcome = Outcome(reason=reason or UNSAID)
    _let_go(state, key)
    state.transactions.remember(key, outcome)
    _remember(state, key, outcome)
    return _status(outcome)


def _remember(state: State, key: Key, outcome: Outcome) -> None:
    """Remember the outcome with its session, too: that of one which is here is known, however many others end meanwhile."""
    if not is_stage(key[0]) and key[0] in state.sessions():
        state.assemblies.decide(*key, outcome)


def _let_go(state: State, key: Key) -> None:
    """Let the parts of an aborted transaction go. Stages are not its own: they stay."""
    if not is_stage(key[0]):
        state.assemblies.let_go(*key)


# --- Decision and Complete -------------------------------------------------------------------------------------------


def decide(state: State, entry: int, command: commands.Decision, payload: memoryview, effects: Effects) -> Status:
    key = (command.session, command.assembly)
    first = command.participants[0] if command.participants else ""
    _check_participants(command.participants, first, command.keys, key)
    transaction = state.transactions.open.get(key)
    if transaction is None:
        known = _known(state, key)
        if known is not None:
            return ("abort", known.reason) if known.reason else COMMIT
        if command.is_commit:
            raise Refused(
                f"transaction '{command.assembly}' is not prepared here, or was forgotten long ago, and cannot be committed; "
                "abort it",
                assembly=command.assembly,
                session=command.session,
            )
        transaction = _decided_abort(state, entry, command)
    _check_same(transaction, command.participants, first)
    if transaction.is_commit is None:
        transaction.is_commit = command.is_commit
        transaction.reason = "" if command.is_commit else command.reason or UNSAID
    return COMMIT if transaction.is_commit else ("abort", transaction.reason)


def _decided_abort(state: State, entry: int, command: commands.Decision) -> Transaction:
    """Abort a transaction that is not known here. It is in doubt until every participant has heard of it."""
    key = (command.session, command.assembly)
    transaction = Transaction(key, command.participants, command.participants[0], entry, command.at_ms, command.keys)
    transaction.outcome = Outcome(reason=command.reason or UNSAID)
    _let_go(state, transaction.key)
    state.transactions.add(transaction)
    _remember(state, key, transaction.outcome)
    return transaction


def complete(state: State, entry: int, command: commands.Complete, payload: memoryview, effects: Effects) -> None:
    """Complete a transaction. It need not be known: it may be complete already."""
    transaction = state.transactions.open.get((command.session, command.assembly))
    if transaction is None:
        return
    if transaction.outcome is None or not transaction.is_first:
        raise Refused(
            f"transaction '{command.assembly}' has no Final here, or this is not its first participant; append that first"
        )
    state.transactions.complete(transaction)


# --- Final -----------------------------------------------------------------------------------------------------------


def finish(state: State, entry: int, command: commands.Final, payload: memoryview, effects: Effects) -> Status:
    key = (command.session, command.assembly)
    _check_participants(command.participants, command.here)
    transaction = state.transactions.open.get(key)
    if transaction is not None:
        _check_same(transaction, command.participants, command.here)
    known = _known(state, key)
    if known is not None:
        if command.is_commit == bool(known.reason):
            raise Refused(f"transaction '{command.assembly}' is {_status(known)[0]} here; no Final changes that")
        return _status(known)
    if transaction is None:
        if command.is_commit:
            raise Refused(f"transaction '{command.assembly}' is not prepared here, and cannot be committed")
        return _abort_unknown(state, key, command.reason)
    if transaction.is_first and transaction.is_commit is not command.is_commit:
        raise Refused(f"transaction '{command.assembly}' is not decided so; append a Decision first, and follow its answer")
    return _status(
        _commit(state, entry, command, transaction, effects)
        if command.is_commit
        else _abort(state, command, transaction, effects)
    )


def _commit(state: State, entry: int, command: commands.Final, transaction: Transaction, effects: Effects) -> Outcome:
    prepared = _unlocked(state, transaction)
    if prepared.publication is not None:
        return _finished(state, transaction, _publish(state, entry, command, prepared, effects), prepared, effects)
    assembly = state.assemblies.find(*transaction.key) or Assembly(*transaction.key)
    confirmations = [(state.queue(key), ranges, 0) for key, ranges in prepared.settled]
    outcome = carry_out(state, entry, assembly, confirmations, prepared.client, command.at_ms, effects)
    return _finished(state, transaction, outcome, prepared, effects)


def _publish(state: State, entry: int, command: commands.Final, prepared: Prepared, effects: Effects) -> Outcome:
    """Place the stages, all of which are here still; none if their number was published before."""
    publication = prepared.publication
    assert publication is not None, "the caller has looked"
    is_new = publication.number > state.scopes.last((publication.session, publication.scope))
    stages = [state.assemblies.find(publication.session, name) for name, _ in publication.stages] if is_new else []
    made = [part.batch for stage in stages if stage is not None for part in stage.in_order()]
    batches = [batch._replace(client=prepared.client) for batch in made]
    events = publishing.carry_out(state, entry, publication, batches, command.at_ms, effects)
    return Outcome((events, 0, batches[0].entry if batches else 0))


def _abort(state: State, command: commands.Final, transaction: Transaction, effects: Effects) -> Outcome:
    prepared = _unlocked(state, transaction)
    _let_go(state, transaction.key)
    effects.extend(Unlocked(key, ranges) for key, ranges in prepared.settled)
    for each in prepared.afterwards:
        _take(state, each, effects)
    outcome = Outcome(reason=transaction.reason or command.reason or UNSAID)
    return _finished(state, transaction, outcome, prepared, effects)


def _unlocked(state: State, transaction: Transaction) -> Prepared:
    prepared = transaction.prepared
    assert prepared is not None, "a transaction without an outcome is prepared"
    for key, ranges in prepared.settled:
        state.backlog(key).unlock(ranges)
    return prepared


def _finished(state: State, transaction: Transaction, outcome: Outcome, prepared: Prepared, effects: Effects) -> Outcome:
    state.transactions.finish(transaction, outcome)
    _remember(state, transaction.key, outcome)
    for key, _ in prepared.settled:
        end_if_left_behind(state, state.queue(key), effects)
    return outcome


def _take(state: State, after: Afterwards, effects: Effects) -> None:
    """Events that are locked no more are dead, or thrown away, as was said while they were locked."""
    queue = state.queue(after.backlog)
    if after.death is not None:
        bury(state, queue, queue.take(after.ranges), after.death, effects)
        return
    finished = queue.finish(after.ranges)
    if finished is not None:
        effects.extend((finished, Purged(queue.key, finished.ranges.count)))
        state.forget_unneeded_of(finished)
