"""The roll call: who takes part in a domain, and how each is, asked over a topic and answered by every engine and listener.

    domain.shop.roll    topic, nothing of it is kept: a question with `reply_to`

    {}                       how are you? Every part of the domain replies once, in JSON
    {"server", "calls"}      the same, from a listener that tells which server it calls (`listener.server.server_claim`)
    {"answers": [number …]}  what did your server answer? Every listener replies for each of these transactions (`StoredAnswer`)

Nobody can say how many should answer but the membership, which each listener tells: whoever asks compares. Answers come out of
the stores of listeners: they have at most SHOWN_BYTES_MAX, and ASKED_MAX are asked for at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Collection
from contextlib import aclosing
from typing import Any

import msgspec

from holdfast.client.client import Client
from holdfast.continuity.answer import Answer
from holdfast.continuity.domain import PREFIX
from holdfast.continuity.request import CONTENT_TYPE
from holdfast.errors import Closed, HoldfastError, TimedOut

log = logging.getLogger("holdfast.continuity")

QUESTION = "holdfast.domain.roll"
ANSWER_SECONDS = 1.0
# After a lost server, an answer is tried again this much later.
AGAIN_SECONDS = 1.0
ASKED_MAX = 1_000
SHOWN_BYTES_MAX = 256 << 10


class StoredAnswer(msgspec.Struct, array_like=True, frozen=True):
    """What a server answered; None if its listener does not have that, or it is too large to be shown."""

    server: str
    role: str
    transaction: str
    answer: Answer | None


Show = Callable[[str], StoredAnswer]
_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(StoredAnswer)


def topic_of(domain: str) -> str:
    return f"{PREFIX}{domain}.roll"


async def answer_for_ever(
    client: Client, domain: str, describe: Callable[[], dict[str, Any]], show: Show | None = None,
    heard: Callable[[dict[str, Any]], None] | None = None,
) -> None:  # fmt: skip
    """Answer every question until cancelled: with what `describe` says, or stored answers where there are some to `show`. `heard`
    is told the question of another listener."""
    while True:
        try:
            async with client.subscribe(topic_of(domain)) as incoming:
                async for event in incoming:
                    wanted = event.data.get("answers") if isinstance(event.data, dict) else None
                    if wanted is None:
                        if heard is not None and isinstance(event.data, dict):
                            heard(event.data)
                        await event.reply(describe())
                    elif show is not None:
                        for each in wanted[:ASKED_MAX]:
                            await event.reply(_encoder.encode(show(str(each))), datacontenttype=CONTENT_TYPE)
                    await event.confirm()
        except Closed:
            return
        except HoldfastError as problem:
            log.info("the roll call of domain %s is not answered for the moment: %s", domain, problem)
            await asyncio.sleep(AGAIN_SECONDS)


async def ask(
    client: Client,
    domain: str,
    wait: float = ANSWER_SECONDS,
    *,
    question: dict[str, Any] | None = None,
    until: Collection[str] | None = None,
) -> list[dict[str, Any]]:
    """The descriptions of all parts that answer within `wait` seconds, or `until` all listeners of these names have."""
    deadline = asyncio.get_running_loop().time() + wait
    answers: list[dict[str, Any]] = []
    async with aclosing(
        _replies(client, domain, question or {}, lambda: deadline - asyncio.get_running_loop().time())
    ) as replies:
        async for each in replies:
            answers.append(msgspec.json.decode(each))
            if until is not None and {told.get("name") for told in answers if told.get("part") == "listener"}.issuperset(until):
                break
    return sorted(answers, key=lambda each: (str(each.get("part")), str(each.get("name"))))


async def ask_answers(
    client: Client, domain: str, transactions: list[str], wait: float = ANSWER_SECONDS
) -> list[StoredAnswer]:  # fmt: skip
    """What the servers answered to these, as far as listeners say so: each within `wait` seconds of the one before."""
    asked = {"answers": transactions[:ASKED_MAX]}
    return [_decoder.decode(each) async for each in _replies(client, domain, asked, lambda: wait)]


async def _replies(client: Client, domain: str, question: dict[str, Any], left: Callable[[], float]) -> AsyncGenerator[bytes]:
    """Ask, and wait for each reply as long as is `left`."""
    replies = await client.temporary_queue()
    await client.topic(topic_of(domain)).send(question, type=QUESTION, reply_to=replies.name)
    async with replies.receive() as incoming:
        while (seconds := left()) > 0:
            try:
                event = await incoming.next(timeout=seconds)
            except TimedOut:
                return
            yield bytes(event.body)
            await event.confirm()
