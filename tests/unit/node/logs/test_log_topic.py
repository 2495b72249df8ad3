"""The log as events: what happens to its lines while its channel does not answer."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from holdfast.channel.memory_channel import MemoryChannel
from holdfast.destination import command
from holdfast.event import batch
from holdfast.node.identity import Identity
from holdfast.node.logs import log_topic
from holdfast.node.logs.log_topic import BUFFER_MAX, LogTopic
from tests.waiting import turn_loop, until

log = logging.getLogger("holdfast.tried")


class Answering:
    """Whether the channel answers."""

    is_so = False

    def __call__(self) -> bool:
        return self.is_so


@asynccontextmanager
async def listening(answering: Answering) -> AsyncIterator[tuple[LogTopic, MemoryChannel]]:
    channel = MemoryChannel()
    topic = LogTopic("a", channel, Identity.in_memory(0), lambda: False, answering)
    log.setLevel(logging.INFO)
    topic.listen(True)
    try:
        yield topic, channel
    finally:
        await topic.stop()
        await channel.close()


async def _lines(channel: MemoryChannel) -> list[str]:
    found = []
    for data in await channel.fetch(range(1, channel.durable + 1)):
        _, payload = command.decode(data)
        found += batch.Batch(payload).bodies_as(bytes.decode)
    return found


async def test_nothing_is_appended_while_the_channel_does_not_answer_and_everything_when_it_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(log_topic, "UNANSWERED_PAUSE_S", 0.0)
    answering = Answering()
    async with listening(answering) as (topic, channel):
        for number in range(5):
            log.warning("appending failed, %d", number)  # as a channel says that does not answer
            await turn_loop(10)
        assert channel.durable == 0

        answering.is_so = True
        await until(lambda: channel.durable, "the lines are appended")

        assert await _lines(channel) == [f"appending failed, {number}" for number in range(5)]
        assert topic.dropped_ever == 0


async def test_lines_that_gather_are_bounded_and_those_that_were_dropped_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_topic, "UNANSWERED_PAUSE_S", 0.0)
    answering = Answering()
    async with listening(answering) as (topic, channel):
        for number in range(BUFFER_MAX + 7):
            log.warning("line %d", number)
        answering.is_so = True
        await until(lambda: channel.durable, "the first are appended")

        assert (await _lines(channel))[:2] == [
            "7 log records were dropped: they came faster than they could be kept",
            "line 7",
        ]
        assert topic.dropped_ever == 7
