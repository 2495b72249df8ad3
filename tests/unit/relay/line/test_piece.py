"""What a batch becomes on its way: the same, or opened and changed, or in pieces that fit."""

from __future__ import annotations

import pytest

from holdfast.client.receiving.received_batch import EncodedBatch
from holdfast.client.receiving.received_event import ReceivedSlice
from holdfast.errors import TooLarge
from holdfast.event.batch import Batch, encode
from holdfast.event.event import Head, decode_head, encode_head
from holdfast.relay.line.piece import BATCH_BYTES_MAX, Changes, pieces_of

FIRST = 65_536
NONE = Changes({}, None, None, "head", "relay.berlin.replies")


def received(heads: list[Head], body: bytes = b"x") -> EncodedBatch:
    data = encode([encode_head(head) for head in heads], [body] * len(heads), source="till", first_id=7 << 64)
    made = ReceivedSlice(None, Batch(data), FIRST, len(heads), 0, len(data), 0)
    return EncodedBatch(made, range(len(heads)))


def test_without_a_rule_a_batch_passes_as_it_is_but_for_its_hop_and_origin() -> None:
    batch = received([Head(type="a"), Head(type="b")])

    (piece,) = pieces_of(batch, FIRST, FIRST + 1, "here", NONE, 99)

    made = Batch(piece.data)
    assert (bytes(made.heads), bytes(made.bodies), made.first_id) == (bytes(batch.slice.batch.heads), b"xx", 7 << 64)
    assert (made.hops, made.origin, piece.first, piece.last) == (1, 99, FIRST, FIRST + 1)


def test_a_part_of_a_batch_keeps_its_ids() -> None:
    (piece,) = pieces_of(received([Head(type=name) for name in "abcd"]), FIRST + 1, FIRST + 2, "here", NONE, 99)

    made = Batch(piece.data)
    assert (made.count, made.first_id) == (2, (7 << 64) + 1)
    assert [decode_head(made.head(index)).type for index in range(2)] == ["b", "c"]


def test_changes_are_in_every_head_and_in_the_head_of_the_batch() -> None:
    changes = NONE._replace(add={"site": "berlin"}, priority=9, ttl_ms=60_000)

    (piece,) = pieces_of(received([Head(properties={"level": 1}), Head()]), FIRST, FIRST + 1, "here", changes, 99)

    made = Batch(piece.data)
    heads = [decode_head(made.head(index)) for index in range(2)]
    assert [head.properties for head in heads] == [{"level": 1, "site": "berlin"}, {"site": "berlin"}]
    assert (made.priority, made.hops, made.origin) == (9, 1, 99)
    assert made.earliest_expiry_ms == heads[0].expires_at_ms > 0
    made.check()


def test_a_request_is_opened_and_its_address_mapped() -> None:
    (piece,) = pieces_of(received([Head(reply_to="_temporary.1", correlation_id="c")]), FIRST, FIRST, "here", NONE, 99)

    head = decode_head(Batch(piece.data).head(0))
    assert (head.reply_to, head.correlation_id) == ("relay.berlin.replies", "relay:head:_temporary.1:c")


def test_a_batch_that_grows_too_large_passes_in_pieces_that_fit() -> None:
    batch = received([Head()] * 1000, b"y" * 1000)

    pieces = pieces_of(batch, FIRST, FIRST + 999, "here", NONE._replace(add={"text": "z" * 200}), 99)

    assert len(pieces) > 1
    assert all(piece.size <= BATCH_BYTES_MAX for piece in pieces)
    positions = [position for piece in pieces for position in range(piece.first, piece.last + 1)]
    assert positions == list(range(FIRST, FIRST + 1000))
    assert [Batch(piece.data).first_id for piece in pieces] == [(7 << 64) + piece.first - FIRST for piece in pieces]


def test_one_event_that_grows_too_large_cannot_pass() -> None:
    batch = received([Head()], b"y" * (BATCH_BYTES_MAX - 500))

    with pytest.raises(TooLarge):
        pieces_of(batch, FIRST, FIRST, "here", NONE._replace(add={"text": "z" * 1000}), 99)
