"""Answers on their way to engines: over the link if there is one, by event if not; in parts if they are large.

An answer is never waited for: the next call begins at once. Events under way are bounded, and dropped past that: the store has
them (continuity rule 17).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from typing import Any

import msgspec

from holdfast.client.client import Client
from holdfast.client.destination import Destination
from holdfast.continuity.answer import Answer, Outcome, Part, body_digest, of_answer, without
from holdfast.continuity.link.answer_link import AnswerLink, AnswerLinks
from holdfast.continuity.link.frame import Answered
from holdfast.continuity.machines.membership import Membership
from holdfast.continuity.request import CONTENT_TYPE, Request
from holdfast.errors import HoldfastError

log = logging.getLogger("holdfast.continuity")

# A part is much smaller than a frame may be.
PART_BYTES = 256 << 10
# Events that may be under way to engines without a link.
EVENTS_MAX = 256
ANSWER = "holdfast.http.answer"
_encoder = msgspec.msgpack.Encoder()


class Answers:
    def __init__(self, client: Client, links: AnswerLinks, membership: Membership, server: str) -> None:
        self._client = client
        self._links = links
        self._membership = membership
        self._server = server
        self._sending: set[asyncio.Task[None]] = set()
        self.dropped = 0

    def tell(self, asked: Request, place: int, outcome: Outcome, answer: Answer | None, reason: str = "") -> None:
        """Answer the engine that asked, without waiting."""
        link = self._links.get(asked.engine, asked.start)
        if link is not None:
            return self.send_to(link, asked.transaction, place, outcome, answer, reason)
        engine = self._membership.engines.get(asked.engine)
        if engine is None or engine.start != asked.start or not engine.reply_to:
            return None
        for part in parts_of(asked.transaction, place, outcome, answer, reason):
            fields = {"datacontenttype": CONTENT_TYPE, "properties": {"server": self._server}}
            self.publish(self._client.queue(engine.reply_to), _encoder.encode(part), ANSWER, **fields)
        return None

    def send_to(
        self, link: AnswerLink, transaction: str, place: int, outcome: Outcome, answer: Answer | None, reason: str = "",
        offset: int = 0,
    ) -> None:  # fmt: skip
        """Send an answer over a link, from this byte of its body on."""
        for part in parts_of(transaction, place, outcome, answer, reason, offset):
            link.send(Answered(part))

    def publish(self, destination: Destination, data: Any, type: str, **fields: Any) -> None:
        """Send an event without waiting; dropped if too many are under way."""
        if len(self._sending) >= EVENTS_MAX:
            self.dropped += 1
            return
        task = asyncio.create_task(_send(destination, data, type, fields))
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    async def close(self) -> None:
        """Wait until what is under way is sent."""
        await asyncio.gather(*self._sending)


async def _send(destination: Destination, data: Any, type: str, fields: dict[str, Any]) -> None:
    try:
        await destination.send(data, type=type, **fields)
    except HoldfastError as problem:
        log.info("an event to %s was not sent: %s", destination.name, problem)


def parts_of(
    transaction: str, place: int, outcome: Outcome, answer: Answer | None, reason: str = "", offset: int = 0
) -> Iterator[Part]:
    """The parts of an answer, from this byte of its body on. The first has the head, the last what is compared."""
    if answer is None:
        yield without(transaction, place, outcome, reason)
        return
    body = answer.body
    if not offset and len(body) <= PART_BYTES:
        yield of_answer(transaction, place, answer, outcome)
        return
    begins = range(offset, max(len(body), offset + 1), PART_BYTES)
    for number, begin in enumerate(begins):
        end = min(begin + PART_BYTES, len(body))
        is_last = end >= len(body)
        yield Part(
            transaction, number, begin, body[begin:end], body_digest(body[:end]), is_last, outcome,
            answer.head if not number else None, answer.comparison if is_last else b"", "", place,
        )  # fmt: skip
