"""Assemblies, large events and scopes in snapshots: made by `snapshot`, read back by `restore`.

An assembly is its parts (in portions, as arrays), then its batches; large events come after all backlogs.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator

from holdfast.destination.backlog.bodies import Large
from holdfast.destination.batch_traits import Traits
from holdfast.destination.snapshots import snapshot_parts
from holdfast.destination.snapshots.snapshot_parts import Part
from holdfast.destination.state.assembly import Assembly, Outcome, PartBatch
from holdfast.destination.state.producers import Batch
from holdfast.destination.state.state import State

# Parts of one assembly, or fragments of one large event, in one part of a snapshot: some 50 KiB.
NUMBERS_MAX = 4_000


def parts(state: State) -> Iterator[Part]:
    for assembly in state.assemblies:
        yield from _assembly(assembly)
    for session, outcomes in state.assemblies.outcomes().items():
        yield snapshot_parts.OutcomesImage(
            session,
            [(name, *outcome.value, outcome.reason) for name, outcome in outcomes.items()],
            {name: outcome.repeated for name, outcome in outcomes.items() if outcome.repeated},
        )
    for entry, large in sorted(state.bodies.larges.items()):
        for begin in range(0, len(large.fragments), NUMBERS_MAX):
            fragments = large.fragments[begin : begin + NUMBERS_MAX].tobytes()
            yield snapshot_parts.LargeImage(entry, large.fragment_bytes, large.large_bytes, begin, fragments)
    yield from _scopes(state)


def _scopes(state: State) -> Iterator[Part]:
    begin = 0
    for scopes in snapshot_parts.portions(state.scopes):
        yield snapshot_parts.ScopesImage(begin, scopes)
        begin += len(scopes)


def _assembly(assembly: Assembly) -> Iterator[Part]:
    for begin in range(0, len(assembly.entries), NUMBERS_MAX):
        end = begin + NUMBERS_MAX
        entries, sizes = assembly.entries[begin:end].tobytes(), assembly.sizes[begin:end].tobytes()
        yield snapshot_parts.AssemblyImage(assembly.session, assembly.name, begin, entries, sizes)
    for number, made in sorted(assembly.batches.items()):
        batch = made.batch
        yield snapshot_parts.PartBatchImage(
            assembly.session, assembly.name, number, batch.entry, batch.events, batch.destination, tuple(batch.traits),
            batch.size, bytes(batch.heads), made.fragments, made.fragment_bytes, made.large_bytes, _packed(batch.unwanted),
            batch.keys, batch.is_replay,
        )  # fmt: skip


def restore(state: State, part: Part) -> bool:
    """Restore a part, if it is one of these; whether it is."""
    match part:
        case snapshot_parts.AssemblyImage():
            state.assemblies.extend(part.session, part.name, part.entries, part.sizes)
        case snapshot_parts.PartBatchImage():
            _restore_batch(state, part)
        case snapshot_parts.OutcomesImage():
            outcomes = {
                name: Outcome((events, confirmed, entry), reason, part.repeated.get(name, 0))
                for name, events, confirmed, entry, reason in part.outcomes
            }
            state.assemblies.remember(part.session, outcomes)
        case snapshot_parts.ScopesImage():
            for session, scope, number, is_often in part.scopes:
                state.scopes.restore((session, scope), number, is_often)
        case snapshot_parts.LargeImage():
            known = state.bodies.larges.get(part.entry)
            fragments = array("Q", known.fragments if known else ())
            fragments.frombytes(part.fragments)
            state.bodies.add_large(part.entry, Large(fragments, part.fragment_bytes, part.large_bytes))
        case _:
            return False
    return True


def _restore_batch(state: State, part: snapshot_parts.PartBatchImage) -> None:
    assembly = state.assemblies.find(part.session, part.name)
    assert assembly is not None, "the parts of an assembly come before its batches"
    batch = Batch(
        part.entry, part.events, part.destination, Traits(*part.traits), part.size, heads=part.heads,
        unwanted=_unpacked(part.unwanted), keys=part.keys, is_replay=part.is_replay,
    )  # fmt: skip
    assembly.batches[part.number] = PartBatch(batch, part.fragments, part.fragment_bytes, part.large_bytes)
    state.bodies.hold(part.entry)


def _packed(unwanted: dict[str, int] | None) -> dict[str, bytes] | None:
    if unwanted is None:
        return None
    return {selector: bits.to_bytes(bits.bit_length() + 7 >> 3, "little") for selector, bits in sorted(unwanted.items())}


def _unpacked(unwanted: dict[str, bytes] | None) -> dict[str, int] | None:
    return None if unwanted is None else {selector: int.from_bytes(bits, "little") for selector, bits in unwanted.items()}
