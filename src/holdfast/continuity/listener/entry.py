"""An event of the topic that a listener has received and not finished, and the request in it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec

from holdfast.client.receiving.received_event import ReceivedEvent
from holdfast.continuity import request
from holdfast.continuity.answer import Answer, Head, Outcome
from holdfast.continuity.listener.durable.record import Record, RecordOutcome
from holdfast.continuity.machines.doubt import Decision
from holdfast.continuity.machines.known_keys import Judgement, New
from holdfast.continuity.request import Request

# A request whose body is streamed is read into memory.
REQUEST_BYTES_MAX = 64 << 20
_SKIPPED = b"This request ended every server that processed it, and is passed over.\n"
SKIPPED = Answer(Head(500, [(b"content-type", b"text/plain")], len(_SKIPPED)), _SKIPPED)

# Answers the engine of a request: its place, the outcome, the answer if there is one, and the reason if there is none.
Tell = Callable[[Request, int, Outcome, Answer | None, str], None]


class Entry:
    """An event of the topic that is not finished."""

    __slots__ = (
        "apply", "decision", "event", "followers", "is_called", "is_given", "is_told", "judgement", "place", "request", "time_us",
        "work",
    )  # fmt: skip

    def __init__(self, place: int, event: ReceivedEvent, time_us: int, request: Request | None = None) -> None:
        self.place = place
        self.event = event
        self.time_us = time_us
        self.request = request
        self.judgement: Judgement = New()
        self.decision: Decision | None = None  # it was in doubt when the listener started
        self.apply: Callable[[], Record] | None = None  # what an event that is no request does, in its turn
        self.work: Callable[[], Awaitable[None]] | None = None  # and what is done before, while nothing else is
        self.followers: list[Entry] = []  # requests with the same key
        self.is_called = False
        self.is_given = False  # an engine has given another server's answer
        self.is_told = False  # the engine knows that there is no answer yet

    def record(self, outcome: RecordOutcome, answer: Answer | None = None, aliases: bytes | None = None) -> Record:
        key, digest = (self.request.key, self.request.digest) if self.request is not None else ("", b"")
        return Record(
            self.place, self.event.position, self.event.id, key, digest, self.time_us, outcome, answer, None, None, aliases
        )


def request_in(event: ReceivedEvent) -> Request:
    """The request in an event. ValueError for an event that is none."""
    return request.from_event(event.id, event.properties, bytes(event.body))


async def large_request_in(event: ReceivedEvent) -> Request:
    """The request in a large event, with its streamed body."""
    if event.size > REQUEST_BYTES_MAX:
        raise ValueError(f"event {event.id} has {event.size:,} bytes, more than {REQUEST_BYTES_MAX:,}")
    asked = request.from_event(event.id, event.properties, request.content_of_large(event.properties))
    async with event.open_stream() as stream:
        body = b"".join([bytes(chunk) async for chunk in stream])
    return msgspec.structs.replace(asked, content=msgspec.structs.replace(asked.content, body=body))
