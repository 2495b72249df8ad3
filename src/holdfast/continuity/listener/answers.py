"""Answers on their way to engines: over the link if there is one, by event if not; in parts if they are large.

    whole        `tell`: it is stored, and goes out in parts
    AnswerStream its parts go out while they come; it is stored at its end, or without its body if that is over BODY_KEPT_MAX
    pass_on      a stream of a declared route, such as server-sent events: it is not stored, and ends with its client or its link

An answer is never waited for: the next call begins at once. Events under way are bounded, and dropped past that: the store has
them (continuity rule 17). A stream waits for room on its link, ROOM_SECONDS a part at most.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from hashlib import blake2b
from typing import Any

import msgspec

from holdfast.client.client import Client
from holdfast.client.destination import Destination
from holdfast.continuity.answer import Answer, Head, Outcome, Part, of_answer, without
from holdfast.continuity.domain import ComparisonRules
from holdfast.continuity.link.answer_link import AnswerLink, AnswerLinks
from holdfast.continuity.link.frame import Answered, Seen
from holdfast.continuity.listener.server.http_caller import PART_BYTES
from holdfast.continuity.listener.server.server_connection import CallFailed
from holdfast.continuity.machines import change as changes
from holdfast.continuity.machines.change import Change
from holdfast.continuity.machines.comparison import Function, comparison_digest, raw_comparison_digest
from holdfast.continuity.machines.membership import Membership
from holdfast.continuity.request import CONTENT_TYPE, DIGEST_BYTES, MEMBER, SKIP, SNAPSHOT, Request
from holdfast.errors import HoldfastError

log = logging.getLogger("holdfast.continuity")

# A streamed body is kept up to this size, and stored. A retry of a larger one gets 410, unless another server has kept it.
BODY_KEPT_MAX = 16 << 20
ROOM_SECONDS = 1.0
# Events that may be under way to engines without a link.
EVENTS_MAX = 256
ANSWER = "holdfast.http.answer"
_encoder = msgspec.msgpack.Encoder()


class Answers:
    def __init__(self, client: Client, links: AnswerLinks, membership: Membership, server: str, requests: str) -> None:
        """`requests`: the topic of the domain, in which it is told what all must know."""
        self._topic = client.topic(requests)
        self._client = client
        self._links = links
        self._membership = membership
        self._server = server
        self._sending: set[asyncio.Task[None]] = set()
        self._streams: dict[str, AnswerStream] = {}  # by transaction
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

    def seen(self, told: Any) -> None:
        """Say to its engine that a session is in the subscription of this server, which is durable."""
        link = self._links.get(str(told.get("engine", "")), str(told.get("start", "")))
        if link is not None:
            link.send(Seen(str(told["session"])))

    def stream(self, asked: Request, place: int) -> AnswerStream:
        """A stream for the answer to a request. Say `end` or `leave` to it."""
        made = self._streams[asked.transaction] = AnswerStream(self, asked.transaction, place, asked.engine, asked.start)
        return made

    def stream_to(self, link: AnswerLink, number: str, place: int) -> AnswerStream:
        """The same for a request that is not in the topic."""
        made = self._streams[number] = AnswerStream(self, number, place, link.address.engine, link.address.start)
        return made

    def link_to(self, engine: str, start: str) -> AnswerLink | None:
        return self._links.get(engine, start)

    def forget(self, transaction: str) -> None:
        self._streams.pop(transaction, None)

    def resume(self, link: AnswerLink, transaction: str, offset: int) -> None:
        """Send what has come of an answer that is not whole, from a byte of its body on."""
        stream = self._streams.get(transaction)
        if stream is not None:
            for part in stream.parts(offset):
                link.send(Answered(part))

    async def pass_on(self, link: AnswerLink, number: str, place: int, parts: AsyncIterator[Head | bytes]) -> None:
        """Pass a stream on to its engine until it ends."""
        digest, offset, count = blake2b(digest_size=DIGEST_BYTES), 0, 0
        try:
            async for each in parts:
                head, body = (each, b"") if isinstance(each, Head) else (None, each)
                digest.update(body)
                link.send(Answered(Part(number, count, offset, body, digest.digest(), False, head=head, place=place)))
                offset, count = offset + len(body), count + 1
                await link.until_room(ROOM_SECONDS)
            link.send(Answered(Part(number, count, offset, b"", digest.digest(), place=place)))
        except CallFailed as failure:
            self.send_to(link, number, place, "failed", None, str(failure))

    def publish(self, destination: Destination, data: Any, type: str, **fields: Any) -> None:
        """Send an event without waiting; dropped if too many are under way."""
        if len(self._sending) >= EVENTS_MAX:
            self.dropped += 1
            return
        task = asyncio.create_task(_send(destination, data, type, fields))
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    # --- what is told in the topic ---------------------------------------------------------------------------------------

    def tell_change(self, change: Change, type: str = MEMBER) -> None:
        self.publish(self._topic, changes.encode(change), type, datacontenttype="application/json")

    def tell_skip(self, transaction: str, reason: str) -> None:
        self.tell_change(Change("skip", self._server, transaction=transaction, reason=reason), SKIP)

    def tell_snapshot(self, told: dict[str, Any]) -> None:
        self.publish(self._topic, told, SNAPSHOT)

    async def close(self) -> None:
        """Wait until what is under way is sent."""
        await asyncio.gather(*self._sending)


class AnswerStream:
    """An answer that is sent while it comes. It is given nothing, and sends nothing, if the answer comes at once."""

    def __init__(self, answers: Answers, transaction: str, place: int, engine: str, start: str) -> None:
        self._answers = answers
        self._transaction, self._place = transaction, place
        self._engine, self._start = engine, start
        self._kept: list[bytes] | None = []
        self._hash: Any = None  # of the body so far, once some was taken
        self._number = 0
        self._offset = 0
        self._head: Head | None = None

    @staticmethod
    def compared(answer: Answer, stream: AnswerStream, rules: ComparisonRules, function: Function | None) -> bytes:
        """The digest of what is compared of a whole answer; of a body that is too large to keep, byte for byte."""
        if not stream.is_kept:
            return raw_comparison_digest(answer.head, stream.digest, rules)
        return comparison_digest(answer, rules, function)

    async def take(self, head: Head, body: bytes) -> None:
        """Send the next bytes of the body. They come as they are: `Accept-Encoding` was left out (21)."""
        is_first = self._head is None
        self._head = head
        offset = self._offset
        self._hash = self._hash or blake2b(digest_size=DIGEST_BYTES)
        self._hash.update(body)
        self._offset += len(body)
        if self._kept is not None:
            self._kept.append(body)
            if self._offset > BODY_KEPT_MAX:
                self._kept = None
        await self._send(
            Part(
                self._transaction, self._number, offset, body, self.digest, False,
                head=head if is_first else None, place=self._place,
            )
        )  # fmt: skip

    async def _send(self, part: Part) -> None:
        self._number += 1
        link = self._answers.link_to(self._engine, self._start)
        if link is not None and link.send(Answered(part)):
            await link.until_room(ROOM_SECONDS)

    @property
    def is_begun(self) -> bool:
        """Something was sent, or would have been if there were a link."""
        return self._head is not None

    @property
    def is_kept(self) -> bool:
        return self._kept is not None

    @property
    def digest(self) -> bytes:
        """The digest of the body so far."""
        return bytes((self._hash or blake2b(digest_size=DIGEST_BYTES)).digest())

    @property
    def body(self) -> bytes:
        return b"".join(self._kept) if self._kept is not None else b""

    def parts(self, offset: int) -> Iterator[Part]:
        """What has come, again; nothing if it is not kept."""
        if self._head is not None and self._kept is not None and offset <= self._offset:
            so_far = Answer(self._head, self.body)
            yield from parts_of(self._transaction, self._place, "answered", so_far, offset=offset, is_whole=False)

    def end(self, comparison: bytes) -> bool:
        """The answer is whole. Whether its engine was told; else it is told as if nothing had been sent."""
        self.leave()
        link = self._answers.link_to(self._engine, self._start)
        last = Part(
            self._transaction, self._number, self._offset, b"", self.digest, True, comparison=comparison, place=self._place
        )
        return link is not None and link.send(Answered(last))

    def leave(self) -> None:
        """The call has ended."""
        self._answers.forget(self._transaction)


async def _send(destination: Destination, data: Any, type: str, fields: dict[str, Any]) -> None:
    try:
        await destination.send(data, type=type, **fields)
    except HoldfastError as problem:
        log.info("an event to %s was not sent: %s", destination.name, problem)


def parts_of(
    transaction: str, place: int, outcome: Outcome, answer: Answer | None, reason: str = "", offset: int = 0,
    is_whole: bool = True,
) -> Iterator[Part]:  # fmt: skip
    """The parts of an answer, from this byte of its body on. The first has the head, the last what is compared."""
    if answer is None:
        yield without(transaction, place, outcome, reason)
        return
    body = answer.body
    if is_whole and not offset and len(body) <= PART_BYTES:
        yield of_answer(transaction, place, answer, outcome)
        return
    digest = blake2b(body[:offset], digest_size=DIGEST_BYTES)
    begins = range(offset, max(len(body), offset + 1), PART_BYTES)
    for number, begin in enumerate(begins):
        end = min(begin + PART_BYTES, len(body))
        is_last = is_whole and end >= len(body)
        digest.update(body[begin:end])
        yield Part(
            transaction, number, begin, body[begin:end], digest.digest(), is_last, outcome,
            answer.head if not number else None, answer.comparison if is_last else b"", "", place,
        )  # fmt: skip
