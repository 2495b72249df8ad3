"""An answer: status, headers and body of a server for one request, or why there is none.

    part 0      status and headers, the first bytes of the body, and whether that is all
    part 1 …    more bytes, each part with the digest of the body so far

Most answers are one part. `Outcome` says what became of the call:

    answered    the server answered; a status of 500 and more is an answer, too, but does not win while another may come
    failed      no answer: the connection was refused or lost, the time was over, the answer was cut short
    replayed    the key is known; this is the stored answer
    clash       the key is known with another request or other credentials: 422
    gone        the key is known, and the body of its answer is kept no more: 410 if all say so
    differs     the key is known, and this server's answer is not the one that was given: 409 if all say so
    declined    not asked: behind the place a read must see, or not current
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Literal

import msgspec

from holdfast.continuity.request import DIGEST_BYTES, Headers

Outcome = Literal["answered", "failed", "replayed", "clash", "gone", "differs", "declined"]
# Headers that concern one connection only, and are neither passed on nor compared.
HOP_BY_HOP = frozenset(
    (
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    )
)


class Head(msgspec.Struct, array_like=True, frozen=True):
    """Status and headers; `length` of the whole body, -1 while it is not known."""

    status: int
    headers: Headers
    length: int = -1


class Part(msgspec.Struct, array_like=True, frozen=True, kw_only=False):
    """A part of an answer, as a listener sends it."""

    transaction: str
    part: int
    offset: int  # of `body` within the whole body
    body: bytes = b""
    digest: bytes = b""  # of the body up to and with this part
    is_last: bool = True
    outcome: Outcome = "answered"
    head: Head | None = None  # with part 0
    comparison: bytes = b""  # with the last part: the digest of what is compared (see `machines.comparison`)
    reason: str = ""  # for people: why there is no answer
    place: int = 0  # of the request in its topic, as the listener counts


class Answer(msgspec.Struct, array_like=True, frozen=True):
    """A whole answer, as it is stored."""

    head: Head
    body: bytes = b""
    comparison: bytes = b""
    outcome: Outcome = "answered"

    @property
    def is_error(self) -> bool:
        return self.head.status >= 500


def body_digest(body: bytes) -> bytes:
    return blake2b(body, digest_size=DIGEST_BYTES).digest()


def of_answer(transaction: str, place: int, answer: Answer, outcome: Outcome = "answered") -> Part:
    """A whole answer in one part."""
    return Part(
        transaction, 0, 0, answer.body, body_digest(answer.body), True, outcome, answer.head, answer.comparison, "", place
    )


def without(transaction: str, place: int, outcome: Outcome, reason: str) -> Part:
    """An answer that there is none."""
    return Part(transaction, 0, 0, outcome=outcome, reason=reason, place=place)
