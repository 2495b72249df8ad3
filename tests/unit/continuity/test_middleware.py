"""Time and random numbers of a request, as a server in Python sees them."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from typing import Any

from holdfast.continuity import middleware


def app(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
    return [f"{middleware.now().isoformat()} {middleware.random().random()}".encode()]


def asked(**environ: str) -> bytes:
    return b"".join(middleware.WsgiMiddleware(app)(dict(environ), None))


def test_a_request_has_the_time_and_the_random_numbers_that_its_headers_say() -> None:
    first = asked(HTTP_HOLDFAST_TIME="1500000", HTTP_HOLDFAST_SEED="7")

    assert first.startswith(b"1970-01-01T00:00:01.500000+00:00 ")
    assert asked(HTTP_HOLDFAST_TIME="1500000", HTTP_HOLDFAST_SEED="7") == first
    assert asked(HTTP_HOLDFAST_TIME="1500000", HTTP_HOLDFAST_SEED="8") != first


def test_a_request_that_says_nothing_or_nonsense_has_the_clock_and_other_numbers_each_time() -> None:
    asked(HTTP_HOLDFAST_TIME="1500000", HTTP_HOLDFAST_SEED="7")

    answers = [
        asked(),
        asked(HTTP_HOLDFAST_TIME="x", HTTP_HOLDFAST_SEED="7"),
        asked(HTTP_HOLDFAST_TIME="1", HTTP_HOLDFAST_SEED="-1"),
    ]

    assert all(answer.startswith(str(datetime.datetime.now(datetime.UTC).year).encode()) for answer in answers)
    assert len({answer.split()[1] for answer in answers}) == 3
