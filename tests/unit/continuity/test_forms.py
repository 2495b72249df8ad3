"""The forms of continuity: definitions, requests and answers come out as they went in, and anything else is refused in words."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.continuity import definition_file, domain, request
from holdfast.continuity.answer import Answer, Head, body_digest, of_answer
from holdfast.continuity.domain import AliasRule, Domain, KeyRule
from holdfast.continuity.request import Content, Request
from holdfast.errors import BadName, BadSetting

HEADERS = st.lists(st.tuples(st.binary(max_size=20), st.binary(max_size=20)), max_size=5)


def _request(content: Content) -> Request:
    return Request(
        transaction="e-1",
        domain="shop",
        session="s",
        sequence=3,
        key="k",
        digest=b"d" * 16,
        engine="e",
        start="00",
        content=content,
    )


@given(st.text(max_size=10), st.text(max_size=50), HEADERS, st.binary(max_size=200), st.integers(0, 1 << 62))
def test_a_request_comes_out_of_its_event_as_it_went_in(
    method: str, target: str, headers: request.Headers, body: bytes, seed: int
) -> None:
    asked = _request(Content(method, target, headers, body, 17, seed))

    fields = request.fields_of(asked)

    assert request.from_event(fields["id"], fields["properties"], request.data_of(asked)) == asked


def test_a_large_request_has_everything_but_its_body_in_its_head() -> None:
    asked = _request(Content("PUT", "/file", [(b"a", b"b")], b"x" * 10, 17, 4))

    fields = request.fields_of_large(asked)
    found = request.from_event("e-1", fields["properties"], request.content_of_large(fields["properties"]))

    assert found.content == Content("PUT", "/file", [(b"a", b"b")], b"", 17, 4)


@pytest.mark.parametrize("properties", [{}, {"domain": "shop"}, {"digest": 5}])
def test_an_event_that_is_no_request_is_refused(properties: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="event e-1 is no request"):
        request.from_event("e-1", properties, b"\x00")


def test_the_digest_of_a_request_covers_who_asks_for_what_and_nothing_else() -> None:
    credentials = frozenset((b"authorization",))

    def digest(method: str = "POST", target: str = "/", headers: request.Headers | None = None, body: bytes = b"x") -> bytes:
        return request.digest_of(method, target, headers or [], body, credentials)

    assert digest() == digest(headers=[(b"date", b"today")])
    others = [
        digest("PUT"), digest(target="/a"), digest(body=b"y"), digest(headers=[(b"authorization", b"ann")]), digest(body=b""),
        digest(headers=[(b"authorization", b"bob")]), digest(target="/x", body=b""),
    ]  # fmt: skip
    assert len({digest(), *others}) == len(others) + 1


def test_a_whole_answer_is_one_part_with_its_digest() -> None:
    part = of_answer("e-1", 7, Answer(Head(200, [], 5), b"hello", b"c"))

    assert (part.part, part.offset, part.is_last, part.digest, part.place) == (0, 0, True, body_digest(b"hello"), 7)


def test_a_definition_is_read_from_a_file_and_comes_back_as_it_was_written(tmp_path: Path) -> None:
    file = tmp_path / "bank.toml"
    file.write_text('order = "key"\nservers-min = 2\n[[keys]]\npath = "/accounts/([^/]+)"\n[[routes]]\npath = "/accounts/*"\n')

    found = definition_file.read("bank", file, {"answer": "agreed"})

    assert (found.order, found.servers_min, found.answer, found.keys) == (
        "key",
        2,
        "agreed",
        (KeyRule(path="/accounts/([^/]+)"),),
    )
    assert domain.decode(domain.encode(found)) == found


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("servers-mim = 2", "did you mean servers-min"),
        ("order = 7", "Expected `str`"),
        ("order = 'key'", "order by key needs rules"),
        ("servers-min = 0", ">= 1"),
        ("[[keys]]\npath = '/a'", "put the key into parentheses"),
        ("[[keys]]\npath = '('", "is no regular expression"),
        ("[[keys]]\nheader = 'a'\njson = '$.a'", "names one place"),
        ("session-cookie = 'a'\nsession-header = 'b'", "not by both"),
        ("order", "is not TOML"),
    ],
)
def test_a_definition_that_makes_no_sense_is_refused_with_what_to_write(tmp_path: Path, text: str, sentence: str) -> None:
    file = tmp_path / "shop.toml"
    file.write_text(text)

    with pytest.raises(BadSetting, match=sentence):
        definition_file.read("shop", file, {})


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadSetting, match=r"nowhere\.toml cannot be read"):
        definition_file.read("shop", tmp_path / "nowhere.toml", {})


def test_an_alias_names_one_place() -> None:
    with pytest.raises(BadSetting, match="alias 'id' names one place"):
        domain.checked(Domain(name="shop", aliases=(AliasRule("id"),)))


@pytest.mark.parametrize("name", ["", "Shop", "-shop", "a.b", "a" * 64, "shop/", "sh op"])
def test_names_are_plain(name: str) -> None:
    with pytest.raises(BadName, match="is no name of a domain"):
        domain.checked_name(name)


def test_a_definition_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(BadSetting, match="no definition of a domain"):
        domain.decode(b'{"name": 1}')


@pytest.mark.parametrize(
    ("headers", "told"),
    [
        ([], ""),
        ([(b"transfer-encoding", b"Chunked ")], ""),
        ([(b"transfer-encoding", b"gzip, chunked")], "gzip, chunked"),
        ([(b"transfer-encoding", b"gzip"), (b"transfer-encoding", b"chunked")], "gzip, chunked"),
        ([(b"transfer-encoding", b"chunked, chunked")], "chunked, chunked"),
    ],
)
def test_a_body_in_a_coding_other_than_chunked_is_not_understood(headers: request.Headers, told: str) -> None:
    assert request.unknown_coding(headers) == told
