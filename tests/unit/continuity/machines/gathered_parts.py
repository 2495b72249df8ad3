"""Parts of answers, and what a gathering makes of them, for its tests."""

from __future__ import annotations

from holdfast.continuity.answer import Answer, Head, Outcome, Part, body_digest, of_answer, without
from holdfast.continuity.machines.gathering import Chunk, Decided, Out

BODY = b"the answer is forty-two"


def whole(body: bytes = BODY, status: int = 200, outcome: Outcome = "answered", comparison: bytes = b"same") -> Part:
    return of_answer("t1", 7, Answer(Head(status, [], len(body)), body, comparison), outcome)


def says(outcome: Outcome, reason: str = "") -> Part:
    return without("t1", 7, outcome, reason)


def piece(
    begin: int, end: int, *, body: bytes = BODY, status: int = 200, length: int = len(BODY), comparison: bytes = b""
) -> Part:
    head = Head(status, [], length) if begin == 0 else None
    return Part(
        "t1", begin, begin, body[begin:end], body_digest(body[:end]), end >= len(body), "answered", head, comparison, "", 7
    )  # fmt: skip


def told(out: list[Out]) -> list[Out]:
    return [each for each in out if not isinstance(each, Decided)]


def body_of(out: list[Out]) -> bytes:
    return b"".join(each.body for each in out if isinstance(each, Chunk))


def decided(out: list[Out]) -> Decided:
    (decided,) = (each for each in out if isinstance(each, Decided))
    return decided
