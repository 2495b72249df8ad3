"""Answers as they are written to a client's connection, in as few bytes objects as can be: one for a whole answer."""

from __future__ import annotations

from functools import lru_cache
from http import HTTPStatus

from holdfast.continuity.engine import passed_headers
from holdfast.continuity.engine.application import Refusal
from holdfast.continuity.engine.transactions.under_way import Transaction
from holdfast.continuity.errors import NotAnswered, NotTaken, ReEntry
from holdfast.continuity.request import Headers

_STATUS_LINES = {each.value: f"HTTP/1.1 {each.value} {each.phrase}".encode() for each in HTTPStatus}
_WITHOUT_BODY = frozenset((204, 304))
# Beginnings of answers that are kept: servers say the same headers again and again, but for the date.
BEGINNINGS_MAX = 256
# Longer ones are not kept.
BEGINNING_HEADERS_MAX = 32


def whole_of(method: str, transaction: Transaction, number: str, body: bytes) -> bytes | None:
    """A whole answer to a request, with its confirmation number; None if its headers cannot be written."""
    begun = transaction.begin
    assert begun is not None
    status = begun.head.status
    if (
        not begun.replayed
        and method != "HEAD"
        and status not in _WITHOUT_BODY
        and len(begun.head.headers) <= BEGINNING_HEADERS_MAX
    ):
        beginning = _beginning(status, tuple(begun.head.headers))
        if beginning is not None and number.isprintable():
            return b"%s\r\nholdfast-transaction: %s\r\ncontent-length: %d\r\n\r\n%s" % (
                beginning, number.encode(), len(body), body,
            )  # fmt: skip
    return whole(method, status, passed_headers.of_answer(transaction, number), body)


@lru_cache(maxsize=BEGINNINGS_MAX)
def _beginning(status: int, headers: tuple[tuple[bytes, bytes], ...]) -> bytes | None:
    """Status line and headers but for the length, as most answers of a server have them; None if they cannot be written."""
    told = [each for each in passed_headers.without_internal(list(headers)) if each[0] != b"content-length"]
    written = _head(status, told)
    return written[:-4] if written is not None else None


def whole(method: str, status: int, headers: Headers, body: bytes) -> bytes | None:
    """An answer that is whole. It has the length of its body, whatever its headers say; None if they cannot be written."""
    if method == "HEAD" or status in _WITHOUT_BODY:
        return _head(status, headers)
    told = [each for each in headers if each[0] != b"content-length"]
    told.append((b"content-length", b"%d" % len(body)))
    head = _head(status, told)
    return head + body if head is not None else None


def head_of(method: str, status: int, headers: Headers) -> tuple[bytes | None, int | None]:
    """The head of an answer whose body is to come, None if it cannot be written; and the length of that body, None if it comes in
    chunks."""
    length = next((int(value) for name, value in headers if name == b"content-length" and value.isdigit()), None)
    if length is None and (method == "HEAD" or status in _WITHOUT_BODY):
        length = 0
    elif length is None:
        headers = [*headers, (b"transfer-encoding", b"chunked")]
    return _head(status, headers), length


def chunked(body: bytes) -> bytes:
    """A chunk of a body; the last one if it is empty."""
    return b"%x\r\n%s\r\n" % (len(body), body)


def _head(status: int, headers: Headers) -> bytes | None:
    """Status line and headers; None if one of them holds what would end it early."""
    lines = [_STATUS_LINES.get(status) or b"HTTP/1.1 %d " % status]
    lines += [b"%s: %s" % each for each in headers]
    head = b"\r\n".join(lines)
    if head.count(b"\n") != len(lines) - 1 or head.count(b"\r") != len(lines) - 1 or b"\0" in head:
        return None
    return head + b"\r\n\r\n"


def refusal_of(method: str, problem: Refusal | ReEntry | NotTaken | NotAnswered) -> bytes:
    """What the client is told when there is no answer for it, as `application` says it."""
    if isinstance(problem, NotTaken):
        return _refusal(method, 503, problem.sentence, [(b"retry-after", b"%d" % problem.retry_after)])
    if isinstance(problem, NotAnswered):
        return _refusal(method, problem.status, problem.sentence, passed_headers.of_problem(problem))
    return _refusal(method, 508 if isinstance(problem, ReEntry) else problem.status, problem.sentence, [])


def unwritable(method: str) -> bytes:
    return _refusal(method, 502, "a header of the answer cannot be written", [])


def _refusal(method: str, status: int, sentence: str, headers: Headers) -> bytes:
    """The answer to HEAD has no body: its client would take that for the beginning of the next answer."""
    body = f"{sentence}\n".encode()
    told = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", b"%d" % len(body)), *headers]
    head = _head(status, told) or b""
    return head if method == "HEAD" else head + body
