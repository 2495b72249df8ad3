"""Hops and origin in the fixed head of a batch (A9): written without opening it, kept by everything that a batch goes through."""

from __future__ import annotations

import pytest

from holdfast.errors import BadEvent, BadName, BatchDamaged
from holdfast.event import batch
from holdfast.event.batch import Batch, UnreadBatch, slice_of, verify, without_bodies
from holdfast.event.hops import HOPS_MAX, hops_of, origin_of, origin_tag, passed_on
from tests.machines import batch_of

BERLIN, ROME = origin_tag("berlin"), origin_tag("rome")


def test_a_batch_that_was_passed_on_differs_in_hops_origin_and_checksum_only() -> None:
    sent = batch_of(3, 7)

    passed = passed_on(sent, BERLIN)

    assert (hops_of(sent), origin_of(sent)) == (0, 0)
    assert (hops_of(passed), origin_of(passed)) == (1, BERLIN)
    differing = {at for at, (one, other) in enumerate(zip(sent, passed, strict=True)) if one != other}
    assert differing <= {4, 5, 6, 7, 9, 12, 13, 14, 15}
    verify(passed)
    Batch(passed).check()


def test_the_first_origin_stays_and_hops_count_up_to_a_limit() -> None:
    passed = passed_on(passed_on(batch_of(1), BERLIN), ROME)
    assert (hops_of(passed), origin_of(passed)) == (2, BERLIN)
    assert origin_of(passed_on(passed_on(batch_of(1)), ROME)) == ROME

    for _ in range(HOPS_MAX - 2):
        passed = passed_on(passed)
    with pytest.raises(BadEvent, match="loop"):
        passed_on(passed)


def test_slices_and_heads_of_a_batch_keep_its_hops_and_origin() -> None:
    passed = passed_on(batch_of(5), BERLIN)
    for data in (slice_of(passed, 1, 2), without_bodies(passed), memoryview(passed)):
        assert (hops_of(data), origin_of(data)) == (1, BERLIN)
        assert Batch(data).trail == UnreadBatch(data).trail == BERLIN << 8 | 1


def test_a_batch_can_be_made_with_hops_and_origin() -> None:
    made = batch.encode([b"\x80"], [b"data"], source="test", first_id=1, hops=3, origin=ROME)
    assert (hops_of(made), origin_of(made), Batch(made).source) == (3, ROME, "test")


def test_what_is_no_batch_and_what_is_no_name_are_refused() -> None:
    with pytest.raises(BatchDamaged):
        hops_of(b"short")
    with pytest.raises(BadName):
        origin_tag("")
    assert BERLIN and BERLIN != ROME
