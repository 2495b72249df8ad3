"""The arguments of actions: read once, for who permits and for who carries out; what an action does not take is refused."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.destination.state.subscription import where_of, where_of_key
from holdfast.errors import BadName, BadPattern, BadSetting
from holdfast.event.pattern import Pattern
from holdfast.node.administration import arguments
from holdfast.node.administration.actions import COMMANDS, QUESTIONS
from holdfast.node.administration.arguments import read
from holdfast.node.administration.touched import Touched
from holdfast.node.messages.answers import ANSWERS

KEYS = ("glob:secret.>", "regex:secret.*", "re:secret", "name:secret", ":", "secret:")


@pytest.mark.parametrize(
    ("action", "given", "said"),
    [
        ("delete", {"name": "q", "topic": "_temporary.x"}, "delete has no argument 'topic'; it has: name"),
        ("status", {"all": True}, "status has no argument 'all'; it has: none"),
        ("describe", {}, "name must be given, as text"),
        ("describe", {"name": 7}, "name is text, not 7"),
        ("describe", {"name": None}, "name is text, not None"),
        ("create", {"name": "q", "kind": "heap"}, "kind is queue or topic, not 'heap'"),
        ("create", {"name": "q"}, "kind must be given, as queue or topic"),
        ("create", {"name": "q", "kind": "queue", "session": "s"}, "create has no argument 'session'"),
        ("subscribe", {"topic": "t", "name": "s", "shared": 1}, "shared is true or false, not 1"),
        ("unsubscribe", {"topic": "t", "name": "s", "match": "like"}, "match is name, glob or regex, not 'like'"),
        ("unsubscribe", {"topic": "t", "name": "s", "match": ["glob"]}, "match is name, glob or regex, not"),
        ("extent", {"topic": "t", "start": True}, "start is a whole number, not True"),
        ("more", {"topic": "t"}, "after must be given, as a whole number"),
        ("drop_stages", {"names": "one"}, "names is a list of texts, not 'one'"),
    ],
)
def test_what_an_action_cannot_be_asked_with_is_refused_with_what_it_takes(action: str, given: dict[str, Any], said: str) -> None:
    with pytest.raises(BadSetting) as refused:
        read(action, given)

    assert said in refused.value.sentence


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("action", ["create", "configure", "delete", "describe"])
def test_the_key_of_a_pattern_is_no_name_of_a_destination(action: str, key: str) -> None:
    with pytest.raises(BadName, match="contains ':'"):
        read(action, {"name": key, **({"kind": "queue"} if action == "create" else {})})


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("match", [{}, {"match": "name"}])
@pytest.mark.parametrize(
    ("action", "besides"),
    [
        ("subscribe", {"name": "s"}),
        ("unsubscribe", {"name": "s"}),
        ("subscriptions", {}),
        ("extent", {"subscription": "s"}),
        ("more", {"subscription": "s", "after": 0}),
        ("confirm_up_to", {"subscription": "s", "place": 0}),
    ],
)
def test_the_key_of_a_pattern_is_no_name_of_a_topic(
    action: str, besides: dict[str, Any], match: dict[str, str], key: str
) -> None:
    with pytest.raises(BadName, match="contains ':'"):
        read(action, {"topic": key, **besides, **match})


def test_what_an_action_touches_is_a_name_or_as_match_says_a_pattern() -> None:
    pattern = Pattern.regex("a.*")

    assert read("unsubscribe", {"topic": "a", "name": "s"}).touched == Touched("manage", "a")
    assert read("unsubscribe", {"topic": "a.*", "name": "s", "match": "regex"}).touched == Touched("manage", pattern)
    assert read("subscriptions", {"topic": "a"}).touched == Touched("any", "a")
    assert read("subscriptions", {"topic": "a.*", "match": "regex"}).touched == Touched("browse", pattern)
    assert read("confirm_up_to", {"topic": "a", "place": 0}).touched == Touched("receive", "a")
    assert read("delete", {"name": "_temporary.x"}).touched is None  # it is asked whose it is


def test_every_question_and_command_has_its_arguments() -> None:
    assert {*QUESTIONS, *COMMANDS} <= set(arguments.ACTIONS)


def test_every_question_has_its_answer() -> None:
    assert ANSWERS.keys() == {*QUESTIONS, "transactions"}  # which client managers alone ask


def test_the_key_of_a_backlog_is_a_name_or_a_pattern_of_a_kind_that_there_is() -> None:
    assert where_of_key("orders.new") == where_of("orders.new", "name") == "orders.new"
    assert where_of_key("glob:orders.*") == where_of("orders.*", "glob") == Pattern.glob("orders.*")
    assert where_of_key("regex:orders:.*") == Pattern.regex("orders:.*")
    for wrong in ("re:orders", "name:orders", ":orders"):
        with pytest.raises(BadPattern, match="neither a name nor a pattern"):
            where_of_key(wrong)
    with pytest.raises(BadName):
        where_of_key("orders new")
