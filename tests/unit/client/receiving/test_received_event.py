"""The data of received events: made of a whole batch at once where that is safe, of each by itself where it is not."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.client.receiving.received_event import TOGETHER_BYTES_MAX, TOGETHER_MIN, ReceivedEvent, ReceivedSlice
from holdfast.event import batch
from holdfast.event.batch import Batch
from holdfast.event.event import UNREADABLE_TYPE, Event, Head, encode_head, to_head_and_body

MANY = TOGETHER_MIN + 3


def received(events: list[Event], heads: list[bytes] | None = None) -> list[ReceivedEvent]:
    pairs = [to_head_and_body(event) for event in events]
    made = batch.encode(heads or [encode_head(head) for head, _ in pairs], [body for _, body in pairs], source="t", first_id=1)
    whole = ReceivedSlice(None, Batch(made), 1, len(events), 0, len(made), 0)
    return [ReceivedEvent(whole, index) for index in range(len(events))]


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
    assert not events[0].slice.together


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
    assert (events[damaged].type, events[damaged].data) == (UNREADABLE_TYPE, b"%d" % damaged)
    assert events[damaged].slice.unreadable == [damaged]


@pytest.mark.parametrize("time_us", [1 << 63, (1 << 64) - 1, -(1 << 63)])
def test_a_time_that_no_calendar_has_is_the_nearest_one(time_us: int) -> None:
    (event,) = received([Event()], [encode_head(Head(time_us=time_us))])

    assert event.time.year == (9999 if time_us > 0 else 1)


@pytest.mark.parametrize("kind", ["application/json", "application/x+json", "text/plain", "application/octet-stream"])
def test_data_that_is_not_what_its_type_says_is_bytes(kind: str) -> None:
    for body in (b"[" * 50_000 + b"]" * 50_000, b"\xff\xfe", b'{"a": ' * 2_000 + b"1" + b"}" * 2_000):
        (event,) = received([Event(data=body, datacontenttype=kind)])

        assert event.data == (body.decode() if kind == "text/plain" and body.isascii() else body)
