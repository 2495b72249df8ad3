"""Answers as they are written: whole, by length, in chunks, and never with a header that would end the head early."""

from __future__ import annotations

import pytest

from holdfast.continuity.engine.application import Refusal
from holdfast.continuity.engine.plain.written_answer import chunked, head_of, refusal_of, unwritable, whole
from holdfast.continuity.errors import NotAnswered, NotTaken, ReEntry


def test_a_whole_answer_has_the_length_of_its_body_whatever_its_headers_say() -> None:
    assert whole("GET", 200, [(b"content-length", b"99"), (b"a", b"b")], b"body") == (
        b"HTTP/1.1 200 OK\r\na: b\r\ncontent-length: 4\r\n\r\nbody"
    )


@pytest.mark.parametrize(("method", "status"), [("HEAD", 200), ("GET", 304), ("POST", 204)])
def test_an_answer_without_a_body_keeps_the_length_that_it_names(method: str, status: int) -> None:
    written = whole(method, status, [(b"content-length", b"99")], b"")

    assert written is not None and written.endswith(b"\r\ncontent-length: 99\r\n\r\n")


def test_a_body_that_is_to_come_has_its_length_or_comes_in_chunks() -> None:
    assert head_of("GET", 200, [(b"content-length", b"7")]) == (b"HTTP/1.1 200 OK\r\ncontent-length: 7\r\n\r\n", 7)
    assert head_of("GET", 299, []) == (b"HTTP/1.1 299 \r\ntransfer-encoding: chunked\r\n\r\n", None)
    assert chunked(b"0123456789abcdef") + chunked(b"") == b"10\r\n0123456789abcdef\r\n0\r\n\r\n"


@pytest.mark.parametrize("value", [b"a\r\nset-cookie: x", b"a\nb", b"a\rb", b"a\0b"])
def test_a_header_that_would_end_the_head_early_is_not_written(value: bytes) -> None:
    assert whole("GET", 200, [(b"a", value)], b"") is None
    assert head_of("GET", 200, [(b"a", value)])[0] is None
    assert unwritable("GET").startswith(b"HTTP/1.1 502 ")


def test_each_problem_has_its_status_and_what_the_client_needs_to_repeat() -> None:
    assert b"\r\nretry-after: 3\r\n" in refusal_of("GET", NotTaken("later", retry_after=3))
    told = refusal_of("GET", NotAnswered(504, "no answer", "t-1", "k-1"))
    assert told.startswith(b"HTTP/1.1 504 ") and b"\r\nholdfast-transaction: t-1\r\nholdfast-key: k-1\r\n" in told
    assert refusal_of("GET", ReEntry("itself")).startswith(b"HTTP/1.1 508 ")
    assert refusal_of("GET", Refusal(400, "too long")).endswith(b"\r\n\r\ntoo long\n")


def test_a_refusal_of_a_head_request_has_no_body() -> None:
    for written in (refusal_of("HEAD", NotTaken("later", retry_after=3)), unwritable("HEAD")):
        assert b"\r\ncontent-length: " in written and written.endswith(b"\r\n\r\n")
