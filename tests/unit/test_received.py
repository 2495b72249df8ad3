"""The data of received events: made of a whole batch at once where that is safe, of each by itself where it is not."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.client.received import TOGETHER_BYTES_MAX, TOGETHER_MIN, Handed, ReceivedEvent
from holdfast.event import batch
from holdfast.event.batch import Batch
from holdfast.event.event import Event, encode_head, to_head_and_body

MANY = TOGETHER_MIN + 3


def received(events: list[Event], heads: list[bytes] | None = None) -> list[ReceivedEvent]:
    pairs = [to_head_and_body(event) for event in events]
    made = batch.encode(heads or [encode_head(head) for head, _ in pairs], [body for _, body in pairs], source="t", first_id=1)
    handed = Handed(None, Batch(made), 1, len(events), 0, len(made), 0)
    return [ReceivedEvent(handed, index) for index in range(len(events))]


plain = (
    st.binary(max_size=40) | st.text(max_size=40) | st.none() | st.dictionaries(st.text(max_size=3), st.integers(), max_size=2)
)


@given(st.lists(st.binary(max_size=40)) | st.lists(st.text(max_size=40)) | st.lists(plain))
def test_whatever_is_beside_it_an_event_has_the_data_it_was_sent_with(sent: list[Any]) -> None:
    for events in (sent, sent * TOGETHER_MIN):
        if events:
            assert [event.data for event in received([Event(data=data) for data in events])] == events


@given(st.lists(st.integers(0, MANY - 1), min_size=1))
def test_it_may_be_looked_at_in_any_order_and_more_than_once(looks: list[int]) -> None:
    events = received([Event(data=b"%d" % index) for index in range(MANY)])

    assert [events[index].data for index in looks] == [b"%d" % index for index in looks]


def test_large_bodies_are_not_copied_for_one_that_is_looked_at() -> None:
    events = received([Event(data=bytes(TOGETHER_BYTES_MAX))] * MANY)

    assert events[0].data == bytes(TOGETHER_BYTES_MAX)
    assert not events[0].handed.together


def test_whoever_changes_what_json_gave_changes_it_for_nobody_else() -> None:
    events = received([Event(data={"sum": 1})] * MANY)

    events[0].data["sum"] = 2

    assert [event.data for event in events] == [{"sum": 1}] * MANY


def test_a_body_that_is_not_the_text_it_should_be_is_bytes_and_the_others_are_text() -> None:
    sent = [Event(data=b"\xff", datacontenttype="text/plain"), *[Event(data="text")] * MANY]

    assert [event.data for event in received(sent)] == [b"\xff", *["text"] * MANY]


@pytest.mark.parametrize("damaged", range(MANY))
def test_a_head_that_cannot_be_read_does_not_hide_the_data_of_the_others(damaged: int) -> None:
    sent = [Event(data=b"%d" % index) for index in range(MANY)]
    heads = [encode_head(to_head_and_body(event)[0]) for event in sent]
    heads[damaged] = b"\xc1" * len(heads[damaged])

    events = received(sent, heads)

    assert [event.data for index, event in enumerate(events) if index != damaged] == [
        b"%d" % index for index in range(MANY) if index != damaged
    ]
    with pytest.raises(msgspec.DecodeError):
        events[damaged].data  # noqa: B018
