from __future__ import annotations

import msgspec
import pytest

from holdfast.bus.message import CreditGranted, LinkDown, Question
from holdfast.bus.message_codec import CODES, KINDS, MessageCodec
from holdfast.node.administration.arguments import ACTIONS, Create, Describe

CODEC = MessageCodec(ACTIONS.values())


def test_messages_that_go_together_arrive_in_order_each_with_its_subject() -> None:
    run = CODEC.run([CODEC.encode("a", LinkDown("1")), CODEC.encode("b", CreditGranted("s", 1, 2, 3))])

    assert CODEC.decode(run) == [("a", LinkDown("1")), ("b", CreditGranted("s", 1, 2, 3))]


def test_a_newer_node_may_send_more_fields_and_an_older_one_fewer() -> None:
    code = CODES[CreditGranted]
    newer = msgspec.msgpack.encode([("a", code, ["s", 1, 2, 3, 4, 5, "of a newer version"])])
    older = msgspec.msgpack.encode([("a", code, ["s", 1, 2, 3])])

    assert CODEC.decode(newer) == [("a", CreditGranted("s", 1, 2, 3, 4, 5))]
    assert CODEC.decode(older) == [("a", CreditGranted("s", 1, 2, 3))]


def test_a_message_of_an_unknown_kind_is_passed_over_and_the_others_are_not(caplog: pytest.LogCaptureFixture) -> None:
    unknown = msgspec.msgpack.encode(("a", max(KINDS) + 1, ["?"]))

    assert CODEC.decode(CODEC.run([unknown, CODEC.encode("a", LinkDown("1"))])) == [("a", LinkDown("1"))]
    assert "a newer node has sent it" in caplog.text


@pytest.mark.parametrize("asked", [Describe(name="orders"), Create(name="orders", kind="queue", redelivery_limit=3)])
def test_the_arguments_of_a_question_are_of_their_type_again(asked: msgspec.Struct) -> None:
    question = Question("client_manager.a1", 1, "any", asked)

    ((_, found),) = CODEC.decode(CODEC.run([CODEC.encode("a", question)]))

    assert found == question
    assert type(found.arguments) is type(asked)


def test_something_that_is_no_message_of_the_bus_cannot_be_published() -> None:
    with pytest.raises(KeyError):
        CODEC.encode("a", "text")
