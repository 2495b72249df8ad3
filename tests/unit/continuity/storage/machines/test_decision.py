"""What a write does, against a plain dictionary."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.continuity.storage import write as writes
from holdfast.continuity.storage.machines.decision import Decision, Entry, decide
from holdfast.continuity.storage.write import Delete, Move, Put, Write

NAMES = st.sampled_from(["a", "b", "c/d"])
DIGESTS = st.sampled_from(["1" * 64, "2" * 64, "3" * 64])
CONDITIONS = st.one_of(st.just(()), st.just(("*",)), st.tuples(DIGESTS))
PUTS = st.builds(Put, NAMES, DIGESTS, st.just(1), st.none(), st.just(""), CONDITIONS, CONDITIONS)
WRITES = st.one_of(PUTS, st.builds(Delete, NAMES, CONDITIONS), st.builds(Move, NAMES, NAMES, CONDITIONS, CONDITIONS))


class Place:
    """Entries that writes are applied to."""

    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {}
        self.number = 0

    def apply(self, write: Write) -> Decision:
        self.number += 1
        decision = decide(write, self.entries.get, self.number, self.number)
        for name, entry in decision.changes:
            if entry is None:
                del self.entries[name]
            else:
                self.entries[name] = entry
        return decision


def _holds(condition: tuple[str, ...], digest: str | None) -> bool:
    return digest is not None and ("*" in condition or digest in condition)


def _naive(files: dict[str, str], write: Write) -> str:
    """The same with digests alone, as HTTP tells it: the outcome."""
    before = files.get(write.name)
    if not isinstance(write, Put) and before is None:
        return "missing"
    if write.if_match and not _holds(write.if_match, before):
        return "differs"
    if isinstance(write, Put):
        if write.if_none_match and _holds(write.if_none_match, before):
            return "differs"
        files[write.name] = write.digest
        return "created" if before is None else "replaced"
    if isinstance(write, Delete):
        del files[write.name]
        return "deleted"
    if write.if_none_match and _holds(write.if_none_match, files.get(write.to)):
        return "differs"
    files[write.to] = files.pop(write.name)
    return "moved"


@given(st.lists(WRITES, max_size=30))
def test_writes_do_what_a_plain_dictionary_does(told: list[Write]) -> None:
    place, files = Place(), dict[str, str]()

    for each in told:
        assert place.apply(each).outcome.kind == _naive(files, each)

    assert {name: entry.digest for name, entry in place.entries.items()} == files


@given(st.lists(WRITES, max_size=20))
def test_two_places_that_apply_the_same_writes_are_equal_and_a_refused_write_changes_nothing(told: list[Write]) -> None:
    one, other = Place(), Place()

    for each in told:
        before = dict(one.entries)
        decision = one.apply(each)
        assert other.apply(writes.decode(writes.encode(each))) == decision
        assert decision.outcome.kind not in ("missing", "differs") or one.entries == before

    assert one.entries == other.entries
