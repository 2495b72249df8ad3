from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.cluster.configuration import NOT_SET, Copy, Difference, Document, Judgement, differences, digest, edited, judge

OLD, MINE, THEIRS = "a = 1\n", "a = 2\n", "a = 3\n"
VALUES = st.dictionaries(st.sampled_from("abc"), st.integers(0, 2))


@pytest.mark.parametrize(
    ("copy", "shared", "judgement"),
    [
        (None, None, Judgement.NOTHING),
        (None, Document(OLD, 1), Judgement.FETCH),
        (Copy(OLD), None, Judgement.OFFER),
        (Copy(OLD, digest(OLD)), None, Judgement.OFFER),
        (Copy(OLD, digest(OLD)), Document(OLD, 1), Judgement.IN_STEP),
        (Copy(OLD, digest(OLD)), Document(THEIRS, 2), Judgement.FETCH),
        (Copy(MINE, digest(OLD)), Document(OLD, 1), Judgement.OFFER),
        (Copy(MINE, digest(OLD)), Document(MINE, 2), Judgement.IN_STEP),
        (Copy(MINE, digest(OLD)), Document(THEIRS, 2), Judgement.CONFLICT),
        (Copy(OLD), Document(OLD, 1), Judgement.IN_STEP),
        (Copy(MINE), Document(THEIRS, 1), Judgement.CONFLICT),
    ],
)
def test_what_a_node_does_follows_from_three_digests(copy: Copy | None, shared: Document | None, judgement: Judgement) -> None:
    assert judge(copy, shared) is judgement


def test_of_two_that_both_changed_neither_is_chosen_whatever_the_versions() -> None:
    texts = (OLD, MINE, THEIRS)
    for own, base, theirs, version in product(texts, (*texts, ""), texts, range(4)):
        judged = judge(Copy(own, digest(base) if base else ""), Document(theirs, version))

        assert (judged is Judgement.CONFLICT) == (own not in (base, theirs) and theirs != base)
        assert (judged is Judgement.FETCH) == (own == base and theirs != own)
        assert (judged is Judgement.OFFER) == (own != base and theirs == base)


class Node:
    """A node as a copy on disk: what it starts with, and what it does then."""

    def __init__(self) -> None:
        self.copy: Copy | None = None

    def start(self, shared: Document | None) -> tuple[Judgement, Document | None]:
        """What is judged, and what the cluster has then."""
        judged = judge(self.copy, shared)
        if judged is Judgement.OFFER:
            assert self.copy is not None
            shared = Document(self.copy.text, 1 if shared is None else shared.version + 1)
        if shared is not None and judged is not Judgement.CONFLICT:
            self.copy = Copy(shared.text, shared.digest)
        return judged, shared


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("edit"), st.integers(0, 1), st.sampled_from("xyz")),
        st.tuples(st.just("start"), st.integers(0, 1), st.just("")),
        st.tuples(st.just("configure"), st.just(0), st.sampled_from("xyz")),
    ),
    max_size=12,
)


@given(STEPS)
def test_no_edit_is_lost_in_silence(steps: list[tuple[str, int, str]]) -> None:
    nodes, shared = (Node(), Node()), None
    for what, which, text in steps:
        node = nodes[which]
        if what == "edit":
            node.copy = Copy(text, node.copy.base if node.copy is not None else "")
        elif what == "configure":
            shared = Document(text, 1 if shared is None else shared.version + 1)
        else:
            before, copy = shared, node.copy
            judged, shared = node.start(shared)
            was_edited = copy is not None and digest(copy.text) != copy.base
            if judged is Judgement.CONFLICT:
                assert was_edited and node.copy == copy and shared == before
            elif was_edited:
                assert copy is not None and shared is not None and shared.text == copy.text
            elif before is not None:
                assert shared == before  # nothing was edited here: the cluster does not change


@given(VALUES, VALUES)
def test_differences_name_each_key_and_both_values(here: dict[str, int], there: dict[str, int]) -> None:
    found = differences(here, there)

    assert (not found) == (here == there)
    assert [each.key for each in found] == sorted({key for key in {*here, *there} if here.get(key) != there.get(key)})
    for each in found:
        assert (each.here, each.there) == (here.get(each.key, NOT_SET), there.get(each.key, NOT_SET))


def test_a_difference_reads_as_a_sentence() -> None:
    assert str(Difference("size_mib", 256, 4096)) == "size_mib is 256 here and 4096 in the cluster"
    assert str(Difference("create_on_use", True, NOT_SET)) == "create_on_use is true here and (not set) in the cluster"


@given(VALUES, VALUES, VALUES)
def test_only_options_that_were_given_anew_are_edits(kept: dict[str, int], before: dict[str, int], now: dict[str, int]) -> None:
    values = edited(kept, before, now)

    for key in "abc":
        is_new = key in now and now[key] != before.get(key)
        assert values.get(key) == (now[key] if is_new else kept.get(key))
