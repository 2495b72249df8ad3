"""Keys of order: where they are found, when they are the same, and which requests have none."""

from __future__ import annotations

import msgspec
import pytest

from holdfast.continuity.domain import Domain, KeyRule
from holdfast.continuity.machines.order_keys import KEYS_MAX, check_rules, json_path, keys_in_order, keys_of
from holdfast.continuity.request import Content
from holdfast.errors import BadSetting

ACCOUNT = KeyRule(path="/accounts/([^/]+)")


def _keys(*rules: KeyRule, target: str = "/", body: object = None, headers: list[tuple[bytes, bytes]] | None = None) -> object:
    data = b"" if body is None else body if isinstance(body, bytes) else msgspec.json.encode(body)
    return keys_of(rules, Content("POST", target, headers or [], data))


@pytest.mark.parametrize(
    "target", ["/accounts/7", "/accounts/7/balance", "/accounts/7?day=1/2", "/accounts/%37", "/accounts/7#x"]
)
def test_the_first_group_of_a_path_is_the_key(target: str) -> None:
    assert _keys(ACCOUNT, target=target) == ("7",)


@pytest.mark.parametrize(
    "target",
    [
        "/", "/v1/accounts/7", "/accounts/", "http://here/accounts/7", "/accounts/7/../8", "/accounts/7/%2e%2E/8", "/accounts//7",
        "/accounts/7/.", "/accounts/7%2F8", "/accounts/7;v=1", "/accounts\\7", "*", "",
    ],
)  # fmt: skip
def test_a_path_without_a_key_or_that_servers_may_read_differently_is_a_barrier(target: str) -> None:
    assert _keys(ACCOUNT, target=target) is None


def test_every_value_of_a_header_is_a_key() -> None:
    headers = [(b"x-customer", b" ann "), (b"other", b"x"), (b"x-customer", b"bob"), (b"x-customer", b"")]

    assert _keys(KeyRule(header="X-Customer"), headers=headers) == ("ann", "bob")


@pytest.mark.parametrize(
    ("path", "body", "keys"),
    [
        ("$.account.id", {"account": {"id": "a"}}, ("a",)),
        ("$.id", {"id": 7}, ("7",)),
        ("$.id", {"id": 7.0}, ("7",)),
        ("$.id", {"id": 7.5}, ("7.5",)),
        ("$.items[*].stock", {"items": [{"stock": "a"}, {"other": 1}, {"stock": "b"}, {"stock": "a"}]}, ("a", "b")),
        ("$.items[1]", {"items": ["a", "b"]}, ("b",)),
        ("$['a.b'][\"c\"]", {"a.b": {"c": "d"}}, ("d",)),
        ("$[*]", ["a", ["b"]], ("a",)),
        ("$.id", {"id": None}, None),
        ("$.id", {"id": True}, None),
        ("$.id", {"id": ""}, None),
        ("$.id", {"id": {"a": 1}}, None),
        ("$.items[5]", {"items": ["a"]}, None),
        ("$.id", [1], None),
        ("$.id", b"no JSON", None),
        ("$.id", b"[" * 100_000, None),
        ("$.id", b'{"id": "\xff"}', None),
        ("$.id", b"", None),
    ],
)
def test_texts_and_numbers_in_a_body_are_keys_and_nothing_else_is(path: str, body: object, keys: object) -> None:
    assert _keys(KeyRule(json=path), body=body) == keys


def test_all_rules_count_and_equal_texts_are_one_key() -> None:
    rules = (KeyRule(json="$.from"), KeyRule(json="$.to"), ACCOUNT, KeyRule(header="customer"))

    assert _keys(*rules, target="/accounts/7", body={"from": 7, "to": 8}, headers=[(b"customer", b"ann")]) == ("7", "ann", "8")


def test_a_request_that_is_doubtful_by_one_rule_has_no_keys() -> None:
    assert _keys(ACCOUNT, KeyRule(json="$.id"), target="/accounts/7", body=b"{") is None
    assert _keys(ACCOUNT, KeyRule(json="$.id"), target="//accounts/7", body={"id": 1}) is None


def test_a_request_with_too_many_keys_is_a_barrier() -> None:
    assert len(_keys(KeyRule(json="$[*]"), body=list(range(KEYS_MAX))) or ()) == KEYS_MAX  # type: ignore[arg-type]
    assert _keys(KeyRule(json="$[*]"), body=list(range(KEYS_MAX + 1))) is None


@pytest.mark.parametrize("text", ["", "id", "$", "$.", "$.a.", "$a", "$.a[", "$.a[x]", "$.a[-1]", "$..a"])
def test_a_text_that_is_no_path_into_json_is_refused(text: str) -> None:
    with pytest.raises(BadSetting, match="no path into JSON"):
        json_path(text)


def test_an_expression_that_may_take_for_ever_is_refused() -> None:
    with pytest.raises(BadSetting, match="no expression of RE2"):
        check_rules((KeyRule(path="/(?=a)(b)"),))


def test_a_domain_says_by_what_its_requests_are_ordered() -> None:
    content = Content("GET", "/accounts/7", [])

    assert keys_in_order(Domain(name="d"), "s", content) == ("",)
    assert keys_in_order(Domain(name="d", order="session"), "s", content) == ("s",)
    assert keys_in_order(Domain(name="d", order="key", keys=(ACCOUNT,)), "s", content) == ("7",)
