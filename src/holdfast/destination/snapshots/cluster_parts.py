"""Transactions over several managers, senders of commands and revisions in snapshots: made by `snapshot`, read back by `restore`.

They come after backlogs and assemblies, because locked positions lie there. On a single server there are none.
"""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.destination.snapshots import snapshot_parts
from holdfast.destination.snapshots.snapshot_parts import OutcomeFields, Part, portions
from holdfast.destination.state.assembly import Outcome
from holdfast.destination.state.cluster.origins import Origin
from holdfast.destination.state.cluster.transactions import Afterwards, Prepared, Publication, Transaction
from holdfast.destination.state.state import State
from holdfast.event.position import Ranges

# Outcomes of one sender in a part: some 50 KiB, if they are not very long.
OUTCOMES_MAX = 500


def parts(state: State) -> Iterator[Part]:
    for transaction in state.transactions.open.values():
        yield _transaction(transaction)
    begin = 0
    for outcomes in portions((*key, _fields(outcome)) for key, outcome in state.transactions.outcomes.items()):
        yield snapshot_parts.TransactionOutcomesImage(begin, outcomes)
        begin += len(outcomes)
    for entry, command in state.transactions.waiting:
        yield snapshot_parts.WaitingImage(entry, command)
    for number, origin in enumerate(state.origins):
        yield from _origin(number, origin)
    yield from _revisions(state)


def _transaction(transaction: Transaction) -> Part:
    prepared = transaction.prepared
    head = (*transaction.key, list(transaction.participants), transaction.here, transaction.since, transaction.since_ms)
    decided = (transaction.is_commit, transaction.reason, transaction.outcome and _fields(transaction.outcome))
    if prepared is None:
        return snapshot_parts.TransactionImage(*head, *decided, False, keys=list(transaction.keys))
    return snapshot_parts.TransactionImage(
        *head,
        *decided,
        True,
        prepared.client,
        [(*key, ranges.to_bytes()) for key, ranges in prepared.settled],
        list(prepared.destinations),
        [(*each.backlog, each.ranges.to_bytes(), each.death) for each in prepared.afterwards],
        prepared.publication and (prepared.publication.scope, prepared.publication.number, list(prepared.publication.stages)),
        list(transaction.keys),
    )


def _origin(number: int, origin: Origin) -> Iterator[Part]:
    yield snapshot_parts.OriginImage(number, origin.start, origin.low, origin.applied, [])
    for outcomes in portions(sorted(origin.outcomes.items()), OUTCOMES_MAX):
        yield snapshot_parts.OriginImage(number, origin.start, origin.low, [], outcomes)


def _revisions(state: State) -> Iterator[Part]:
    revisions = state.revisions
    for present in portions(sorted(revisions.present.items())):
        yield snapshot_parts.RevisionsImage(revisions.forgotten, 0, present, [])
    begin = 0
    for gone in portions(revisions.gone.items()):
        yield snapshot_parts.RevisionsImage(revisions.forgotten, begin, [], gone)
        begin += len(gone)


def _fields(outcome: Outcome) -> OutcomeFields:
    return (*outcome.value, outcome.reason, outcome.repeated)


def _outcome(fields: OutcomeFields) -> Outcome:
    return Outcome(fields[:3], fields[3], fields[4])


def restore(state: State, part: Part) -> bool:
    """Restore a part, if it is one of these; whether it is."""
    match part:
        case snapshot_parts.TransactionImage():
            _restore_transaction(state, part)
        case snapshot_parts.TransactionOutcomesImage():
            for session, assembly, outcome in part.outcomes:
                state.transactions.remember((session, assembly), _outcome(outcome))
        case snapshot_parts.WaitingImage():
            state.transactions.waiting.append((part.entry, part.command))
        case snapshot_parts.OriginImage():
            origin = state.origins.get(part.start)
            origin.low = part.low
            origin.applied.extend(part.applied)
            for token, said in part.outcomes:
                origin.remember(token, said)
        case snapshot_parts.RevisionsImage():
            state.revisions.forgotten = part.forgotten
            state.revisions.present.update(part.present)
            state.revisions.gone.update(part.gone)
        case _:
            return False
    return True


def _restore_transaction(state: State, part: snapshot_parts.TransactionImage) -> None:
    made = Transaction((part.session, part.name), part.participants, part.here, part.since, part.since_ms, part.keys)
    made.is_commit, made.reason = part.is_commit, part.reason
    made.outcome = None if part.outcome is None else _outcome(part.outcome)
    if part.is_prepared:
        settled = tuple(((name, subscription), Ranges.from_bytes(ranges)) for name, subscription, ranges in part.settled)
        afterwards = [Afterwards((name, sub), Ranges.from_bytes(ranges), death) for name, sub, ranges, death in part.afterwards]
        publication = None
        if part.publication is not None:
            scope, number, stages = part.publication
            publication = Publication(part.session, scope, number, tuple(stages))
        made.prepared = Prepared(part.client, settled, tuple(part.destinations), afterwards, publication)
        for key, ranges in settled:
            state.backlog(key).lock(ranges)
    state.transactions.add(made)
