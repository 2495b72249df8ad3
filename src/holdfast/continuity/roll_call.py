"""The roll call: who takes part in a domain, and how each is, asked over a topic and answered by every engine and listener.

    domain.shop.roll    topic, nothing of it is kept: a question with `reply_to`; every part of the domain replies once

Nobody can say how many should answer but the membership, which each listener tells: whoever asks compares.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import msgspec

from holdfast.client.client import Client
from holdfast.continuity.domain import PREFIX
from holdfast.errors import Closed, HoldfastError, TimedOut

log = logging.getLogger("holdfast.continuity")

QUESTION = "holdfast.domain.roll"
ANSWER_SECONDS = 1.0
# After a lost server, an answer is tried again this much later.
AGAIN_SECONDS = 1.0


def topic_of(domain: str) -> str:
    return f"{PREFIX}{domain}.roll"


async def answer_for_ever(client: Client, domain: str, describe: Callable[[], dict[str, Any]]) -> None:
    """Answer every roll call with what `describe` says, until cancelled."""
    while True:
        try:
            async with client.subscribe(topic_of(domain)) as incoming:
                async for event in incoming:
                    await event.reply(describe())
                    await event.confirm()
        except Closed:
            return
        except HoldfastError as problem:
            log.info("the roll call of domain %s is not answered for the moment: %s", domain, problem)
            await asyncio.sleep(AGAIN_SECONDS)


async def ask(client: Client, domain: str, wait: float = ANSWER_SECONDS) -> list[dict[str, Any]]:
    """The descriptions of all parts that answer within `wait` seconds."""
    replies = await client.temporary_queue()
    answers: list[dict[str, Any]] = []
    await client.topic(topic_of(domain)).send({}, type=QUESTION, reply_to=replies.name)
    deadline = asyncio.get_running_loop().time() + wait
    async with replies.receive() as incoming:
        while (left := deadline - asyncio.get_running_loop().time()) > 0:
            try:
                event = await incoming.next(timeout=left)
            except TimedOut:
                break
            answers.append(msgspec.json.decode(bytes(event.body)))
            await event.confirm()
    return sorted(answers, key=lambda each: (str(each.get("part")), str(each.get("name"))))
