"""Receipts of batches that are given when they are durable and applied, in whichever order that comes."""

from __future__ import annotations

import pytest

from holdfast.channel.channel import Receipt
from holdfast.destination.state.deduplication import Repeated
from holdfast.errors import HoldfastError
from holdfast.node.clients import client_flow
from holdfast.node.clients.client_flow import AppliedReceipts


def test_a_receipt_is_given_when_the_batch_is_durable_and_applied_and_the_oldest_without_one_are_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(client_flow, "APPLIED_MAX", 2)
    receipts, told = AppliedReceipts(lambda: None), list[int]()

    def tell(outcome: Receipt | HoldfastError, repeated: Repeated) -> None:
        assert isinstance(outcome, Receipt)
        told.append(outcome.entry)

    for entry in (1, 2, 3):
        receipts.applied(entry, entry + 10, ())
    for entry in (1, 2, 3):
        receipts.durable(tell, Receipt(entry, 1, True))
    forgotten = list(told)
    receipts.applied(1, 11, ())

    assert forgotten == [12, 13]  # as those of the entries that were taken first
    assert told == [12, 13, 11]
