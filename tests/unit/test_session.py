from __future__ import annotations

import pytest

from holdfast.errors import Detached, ProtocolError
from holdfast.session.session import PRODUCERS_MAX, QUESTIONS_MAX, ReceiverPlace, Session


def test_a_receiver_that_was_not_opened_is_refused() -> None:
    """A verdict may cross the closing of its receiver: that is no breach of the protocol."""
    with pytest.raises(Detached, match="attach it first"):
        Session("s", "test", window=4).receiver(1)


def test_a_receiver_number_stands_for_one_place_only() -> None:
    session = Session("s", "test", window=4)
    session.open_receiver(1, ReceiverPlace("orders", ""))
    session.open_receiver(1, ReceiverPlace("orders", ""))  # attaching again after a lost link

    with pytest.raises(ProtocolError, match="orders"):
        session.open_receiver(1, ReceiverPlace("prices", ""))
    assert session.receiver(1).destination == "orders"


def test_a_producer_that_was_not_opened_here_is_refused() -> None:
    with pytest.raises(ProtocolError, match="open it first"):
        Session("s", "test", window=4).check_producer("p")


def test_nothing_is_sent_under_a_producer_before_its_opening_is_answered_and_none_after_it_was_refused() -> None:
    session = Session("s", "test", window=4)
    session.open_producer("p", is_open=False)
    with pytest.raises(ProtocolError, match="open it first"):
        session.check_producer("p")

    session.open_producer("p", is_open=True)
    session.open_producer("p", is_open=False)  # again, after a lost link: it was this session's before
    session.drop_unopened("p")
    session.check_producer("p")

    session.open_producer("q", is_open=False)
    session.drop_unopened("q")
    assert list(session.producers) == ["p"]


def test_a_producer_of_a_full_session_opens_again_and_no_other() -> None:
    session = Session("s", "test", window=4)
    for number in range(PRODUCERS_MAX):
        session.open_producer(f"p{number}", is_open=True)

    session.open_producer("p0", is_open=True)
    with pytest.raises(ProtocolError, match="at most"):
        session.open_producer("another", is_open=False)


def test_more_batches_than_the_window_are_refused_until_receipts_come() -> None:
    session = Session("s", "test", window=2)
    session.sent()
    session.sent()

    with pytest.raises(ProtocolError, match="wait for receipts"):
        session.sent()

    session.receipted()
    session.sent()


def test_questions_without_end_are_refused() -> None:
    session = Session("s", "test", window=2)
    for _ in range(QUESTIONS_MAX):
        session.asked()

    with pytest.raises(ProtocolError, match="wait for answers"):
        session.asked()


def test_a_session_is_overdue_only_when_it_stayed_away_for_its_grace() -> None:
    session = Session("s", "test", window=2)
    assert not session.is_overdue(10_000, grace_ms=1)

    session.went_away(10_000)
    assert not session.is_overdue(10_999, grace_ms=1_000)
    assert session.is_overdue(11_000, grace_ms=1_000)

    session.came_back()
    assert not session.is_overdue(99_000, grace_ms=1_000)


def test_what_was_outstanding_on_a_lost_link_does_not_count_on_the_next() -> None:
    session = Session("s", "test", window=1)
    session.sent()
    session.went_away(0)
    session.came_back()

    session.sent()


def test_a_client_in_whose_place_another_came_does_not_get_the_session_back() -> None:
    session = Session("s", "", 10)
    session.go_on_for("first")
    session.go_on_for("first")
    assert not session.is_lost_to("first")

    session.go_on_for("second")

    assert session.is_lost_to("first")
    assert not session.is_lost_to("second") and not session.is_lost_to("third")
