"""The names that a relay gives, and what is read from them."""

from __future__ import annotations

import pytest

from holdfast.relay import names


@pytest.mark.parametrize("route", ["alerts", "orders.till-1", "marks", "ask"])
def test_a_route_is_read_from_its_subscription_and_from_its_marks(route: str) -> None:
    assert names.route_of("berlin", names.subscription("berlin", route, "a", "b")) == route
    assert names.route_of_marks("berlin", names.marks_topic("berlin", route)) == route


def test_another_question_has_another_subscription() -> None:
    assert names.subscription("berlin", "a", "x", "") != names.subscription("berlin", "a", "", "x")


@pytest.mark.parametrize(
    "other", ["relay.berlin.alerts", "relay.berlin.alerts.xyz", "relay.rome.alerts.01234567", "pager", "relay.berlin."]
)
def test_what_is_not_of_the_relay_is_none_of_its_routes(other: str) -> None:
    assert names.route_of("berlin", other) is None


def test_the_topic_of_questions_names_its_relay_and_nothing_else_does() -> None:
    assert names.relay_of_ask(names.ask_topic("berlin")) == "berlin"
    for other in ("relay.berlin.alerts.marks", "relay.berlin.replies", "relay.a.b.ask", "relay..ask", "ask"):
        assert not names.relay_of_ask(other)
