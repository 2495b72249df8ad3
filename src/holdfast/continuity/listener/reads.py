"""Reads at a listener: requests that are not in the topic, each answered by a task of its own, whole or as a stream.

    read      the server's answer, in parts if it is long
    stream    passed on while it comes, until it ends, its client leaves, or the link is lost

Whether the server has finished everything that a read must see is the listener's to say (continuity rule 10).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing

import msgspec

from holdfast.continuity.answer import Answer
from holdfast.continuity.link.answer_link import AnswerLink
from holdfast.continuity.link.frame import Read
from holdfast.continuity.listener.answers import Answers, AnswerStream
from holdfast.continuity.listener.server_call import Declined, ServerCall
from holdfast.continuity.listener.server_connection import CallFailed

# Streams that are passed on at once: each has a connection to the server, and others need some, too.
STREAMS_MAX = 64


class Reads:
    def __init__(self, server: ServerCall, answers: Answers, compare: Callable[[Answer, AnswerStream], bytes]) -> None:
        """`compare` gives the digest of an answer."""
        self._server = server
        self._answers = answers
        self._compare = compare
        self._tasks: set[asyncio.Task[None]] = set()
        self._streams: dict[str, asyncio.Task[None]] = {}  # by their number

    def answer(self, link: AnswerLink, asked: Read, place: int) -> None:
        """Begin to answer. `place`: everything up to it is finished."""
        if asked.is_stream and len(self._streams) >= STREAMS_MAX:
            return self._answers.send_to(link, asked.number, 0, "declined", None, f"{STREAMS_MAX} streams are passed on already")
        task = asyncio.create_task((self._pass_on if asked.is_stream else self._read)(link, asked, place))
        if asked.is_stream:
            self._streams[asked.number] = task
        self._tasks.add(task)
        return task.add_done_callback(self._tasks.discard)

    async def _read(self, link: AnswerLink, asked: Read, place: int) -> None:
        stream = self._answers.stream_to(link, asked.number, place)
        try:
            answer = await self._server.read(asked.number, asked.content, stream)
        except Declined as reason:
            return self._answers.send_to(link, asked.number, place, "declined", None, str(reason))
        except CallFailed as failure:
            return self._answers.send_to(link, asked.number, place, "failed", None, str(failure))
        finally:
            stream.leave()
        answer = msgspec.structs.replace(answer, comparison=self._compare(answer, stream))
        if stream.is_begun:
            stream.end(answer.comparison)
        else:
            self._answers.send_to(link, asked.number, place, "answered", answer)
        return None

    async def _pass_on(self, link: AnswerLink, asked: Read, place: int) -> None:
        """Pass a stream on until it ends, its engine stops it, or the link is lost."""
        try:
            async with aclosing(self._server.pass_through(asked.content)) as parts:
                passing = asyncio.ensure_future(self._answers.pass_on(link, asked.number, place, parts))
                lost = asyncio.ensure_future(link.until_lost())
                try:
                    await asyncio.wait((passing, lost), return_when=asyncio.FIRST_COMPLETED)
                finally:
                    passing.cancel()
                    lost.cancel()
                    await asyncio.gather(passing, lost, return_exceptions=True)
        finally:
            self._streams.pop(asked.number, None)

    def stop_stream(self, number: str) -> None:
        task = self._streams.get(number)
        if task is not None:
            task.cancel()

    async def stop(self) -> None:
        """Cancel all of them."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
