"""The headers that an engine passes on: of a request to the servers, and of an answer to the client.

Headers of one connection stay at it. Internal ones (`Holdfast-…`) neither come in nor go out, but for the confirmation number and
the mark of a stored answer (4). `Accept-Encoding` is left out, so that the answers of all servers are the same bytes (21).
"""

from __future__ import annotations

from holdfast.continuity.answer import HOP_BY_HOP
from holdfast.continuity.engine.transactions.under_way import Transaction
from holdfast.continuity.errors import NotAnswered
from holdfast.continuity.request import Headers

_INTERNAL = b"holdfast-"
_LEFT_OUT = HOP_BY_HOP | {b"accept-encoding", b"idempotency-key", b"expect", b"content-length"}


def of_request(headers: Headers, body: bytes) -> Headers:
    """What servers get of a request's headers, whose names are in lower case."""
    passed = [each for each in headers if each[0] not in _LEFT_OUT and not each[0].startswith(_INTERNAL)]
    if body or any(name == b"content-length" for name, _ in headers):
        passed.append((b"content-length", b"%d" % len(body)))
    return passed


def of_answer(transaction: Transaction, number: str) -> Headers:
    """What the client gets of an answer's headers, and its confirmation number."""
    assert transaction.begin is not None
    passed = without_internal(transaction.begin.head.headers)
    passed.append((b"holdfast-transaction", number.encode()))
    if transaction.begin.replayed:
        passed.append((b"holdfast-replayed", b"true"))
    return passed


def without_internal(headers: Headers) -> Headers:
    """The headers of an answer without those of one connection, and of Holdfast."""
    return [each for each in headers if each[0] not in HOP_BY_HOP and not each[0].startswith(_INTERNAL)]


def of_problem(problem: NotAnswered) -> Headers:
    """Number and key, with which the client may repeat its request."""
    return [(b"holdfast-transaction", problem.transaction.encode()), (b"holdfast-key", problem.key.encode())]
