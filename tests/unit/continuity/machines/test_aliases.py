"""Aliases: values of one server become tokens that are alike at all, and tokens become that server's values again."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.continuity.answer import Answer, Head
from holdfast.continuity.domain import AliasRule
from holdfast.continuity.machines.aliases import Alias, Aliases, UnknownToken, identity_of, number_token, text_token
from holdfast.continuity.request import Content
from holdfast.errors import BadSetting, Damaged

ID = AliasRule("order", json="$.id")
LOCATION = AliasRule("order", header="Location", pattern=r"/orders/([^/?]+)")
COOKIE = AliasRule("session", cookie="sid")
JSON = (b"content-type", b"application/json")


def _answer(value: Any = None, *headers: tuple[bytes, bytes]) -> Answer:
    body = json.dumps(value).encode() if value is not None else b""
    return Answer(Head(201, [*headers, (b"content-length", b"%d" % len(body))], len(body)), body)


def _request(target: str = "/", body: bytes = b"", *headers: tuple[bytes, bytes]) -> Content:
    return Content("POST", target, [*headers, (b"content-length", b"%d" % len(body))], body)


def _incoming(aliases: Aliases, request: Content) -> Content:
    content = aliases.incoming(request)
    assert isinstance(content, Content)
    return content


# --- from the server -----------------------------------------------------------------------------------------------------


def test_values_that_differ_become_tokens_that_are_alike() -> None:
    servers = {own: Aliases([ID, LOCATION, COOKIE]) for own in (17, 93)}

    answers = [
        aliases.outgoing(
            "t1", _answer({"id": own}, (b"location", b"/orders/%d" % own), (b"set-cookie", b"sid=s%d; Path=/" % own))
        ).answer
        for own, aliases in servers.items()
    ]

    assert answers[0] == answers[1]
    assert b"17" not in answers[0].body and answers[0].head.length == len(answers[0].body)
    assert dict(answers[0].head.headers)[b"set-cookie"].endswith(b"; Path=/")


@pytest.mark.parametrize("value", [17, 1.5, "abc", "17"])
def test_the_type_of_a_value_is_kept(value: Any) -> None:
    body = Aliases([ID]).outgoing("t1", _answer({"id": value})).answer.body

    assert type(json.loads(body)["id"]) is type(value)


@pytest.mark.parametrize("value", [None, True, {"x": 1}, [1], ""])
def test_values_that_name_nothing_are_left_alone(value: Any) -> None:
    answer = _answer({"id": value})

    assert Aliases([ID]).outgoing("t1", answer) == (answer, ())


def test_a_value_that_is_known_keeps_its_token_and_rules_of_one_name_share_it() -> None:
    aliases = Aliases([ID, LOCATION, AliasRule("customer", json="$.customer")])

    first = json.loads(aliases.outgoing("t1", _answer({"id": 17, "customer": 17})).answer.body)
    location = dict(aliases.outgoing("t2", _answer(None, (b"location", b"/orders/17?x=1"))).answer.head.headers)[b"location"]

    assert location == b"/orders/%d?x=1" % first["id"]
    assert first["customer"] != first["id"], "another name is another thing"


def test_several_values_of_an_answer_are_numbered() -> None:
    aliases = Aliases([AliasRule("item", json="$.items[*].id")])

    outgoing = aliases.outgoing("t1", _answer({"items": [{"id": "a"}, {"id": "b"}, {"id": "a"}]}))
    tokens = [item["id"] for item in json.loads(outgoing.answer.body)["items"]]

    assert tokens == [text_token(identity_of("t1", "item", number)) for number in (1, 2)] + tokens[:1]
    assert [alias.value for alias in outgoing.learnt] == ["a", "b"]


def test_a_token_that_is_taken_is_not_given_twice() -> None:
    aliases = Aliases([ID])
    aliases.learn(Alias("order", identity_of("t1", "order", 1), "other", False))

    token = json.loads(aliases.outgoing("t1", _answer({"id": 17})).answer.body)["id"]

    assert token == number_token(identity_of("t1", "order", 1, attempt=1))


def test_an_answer_without_a_value_is_not_touched() -> None:
    answer = Answer(Head(200, [(b"location", b"/elsewhere")], 11), b"{ not json }")

    assert Aliases([ID, LOCATION]).outgoing("t1", answer) == (answer, ())


# --- to the server -------------------------------------------------------------------------------------------------------


def test_tokens_become_values_wherever_they_stand_in_a_request() -> None:
    aliases = Aliases([ID, COOKIE])
    aliases.outgoing("t1", _answer({"id": 17}, (b"set-cookie", b"sid=a b")))
    number, session = number_token(identity_of("t1", "order", 1)), text_token(identity_of("t1", "session", 1))

    body = b'{"id": %d, "text": "%s,%d"}' % (number, session.encode(), number)
    cookie = (b"cookie", b"a=1; sid=%s" % session.encode())
    content = _incoming(aliases, _request(f"/orders/{number}?s={session}", body, JSON, cookie))

    assert content.target == "/orders/17?s=a%20b"
    assert content.body == b'{"id": 17, "text": "a b,17"}'
    assert content.headers == [JSON, (b"cookie", b"a=1; sid=a b"), (b"content-length", b"%d" % len(content.body))]


def test_a_value_is_written_as_the_type_of_the_body_wants_it() -> None:
    aliases = Aliases([ID])
    aliases.outgoing("t1", _answer({"id": 'a"&b'}))
    token = text_token(identity_of("t1", "order", 1)).encode()

    assert _incoming(aliases, _request("/", b'{"id":"%s"}' % token, JSON)).body == rb'{"id":"a\"&b"}'
    form = (b"content-type", b"application/x-www-form-urlencoded")
    assert _incoming(aliases, _request("/", b"id=%s" % token, form)).body == b"id=a%22%26b"
    assert _incoming(aliases, _request("/", b"id=%s" % token)).body == b'id=a"&b'


def test_an_unknown_token_is_refused_and_never_passed_on() -> None:
    aliases = Aliases([ID])
    text, number = text_token(identity_of("t9", "order", 1)), number_token(identity_of("t9", "order", 1))

    assert aliases.incoming(_request(f"/orders/{text}")) == UnknownToken(text)
    assert aliases.incoming(_request("/", b'{"id": %d}' % number, JSON)) == UnknownToken(str(number))
    assert aliases.incoming(_request("/", b"", (b"cookie", b"sid=" + text.encode()))) == UnknownToken(text)


def test_values_that_only_look_like_tokens_are_passed_on() -> None:
    aliases = Aliases([ID])
    text, number = text_token(identity_of("t9", "order", 1)), number_token(identity_of("t9", "order", 1))
    changed = text[:-5] + ("a" if text[-5] != "a" else "b") + text[-4:]
    others = [changed, str(number ^ 1), f"x{text}", f"{text}x", f"0.{number}", f"{number}7", "4111111111111111"]

    for other in others:
        assert aliases.incoming(_request(f"/{other}")) == _request(f"/{other}")


def test_without_rules_nothing_is_looked_at() -> None:
    request, answer = _request("/" + text_token(identity_of("t", "x", 1))), _answer({"id": 1})

    assert Aliases([]).incoming(request) is request and Aliases([]).outgoing("t", answer).answer is answer


@given(
    st.lists(
        st.one_of(st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text(min_size=1)), min_size=1, max_size=6
    )
)
def test_whatever_went_out_as_a_token_comes_back_as_the_value(values: list[Any]) -> None:
    aliases = Aliases([AliasRule("v", json="$[*]")])

    out = aliases.outgoing("t1", _answer(values)).answer.body
    back = _incoming(aliases, _request("/", out, JSON)).body

    assert json.loads(back) == values
    assert [type(value) for value in json.loads(back)] == [type(value) for value in values]


# --- state ---------------------------------------------------------------------------------------------------------------


def test_aliases_are_the_same_after_they_were_stored() -> None:
    aliases, from_records, from_snapshot = (Aliases([ID]) for _ in range(3))
    for number in range(5):
        for alias in aliases.outgoing(f"t{number}", _answer({"id": number})).learnt:
            from_records.learn(alias)
            from_records.learn(alias)
    from_snapshot.decode(aliases.encode())

    assert aliases.encode() == from_records.encode() == from_snapshot.encode()
    with pytest.raises(Damaged):
        from_snapshot.decode(b"\xc1")


def test_past_the_limit_the_oldest_is_forgotten_and_its_token_refused() -> None:
    aliases = Aliases([ID], tokens_max=2)
    for number in range(3):
        aliases.outgoing(f"t{number}", _answer({"id": number}))

    assert len(aliases) == 2
    assert isinstance(aliases.incoming(_request(f"/{number_token(identity_of('t0', 'order', 1))}")), UnknownToken)
    assert _incoming(aliases, _request(f"/{number_token(identity_of('t1', 'order', 1))}")).target == "/1"


@pytest.mark.parametrize(
    "rule", [AliasRule("a", json="id"), AliasRule("a", header="x", pattern="("), AliasRule("a", header="x", pattern="x")]
)
def test_a_rule_that_cannot_be_used_is_refused(rule: AliasRule) -> None:
    with pytest.raises(BadSetting):
        Aliases([rule])
