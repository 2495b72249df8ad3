"""A pull: one ephemeral consumer (memory, no acknowledgements, a start sequence) that hands out entries until it fails.

It reads the copy of one server, and knows which. A consumer that is silent for longer than its heartbeats allow is thrown away.
"""

from __future__ import annotations

import asyncio
import json
import secrets

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.js import api

from holdfast.channel.jetstream.direct_get import RUN_BYTES_MAX, RUN_ENTRIES_MAX, found_in
from holdfast.channel.jetstream.machines.copy_judge import Found
from holdfast.channel.jetstream.nats_errors import FOREIGN
from holdfast.channel.jetstream.settings import Names
from holdfast.errors import Unavailable

EXPIRY_S = 30
HEARTBEAT_S = 0.4
SILENCE_S = 3 * HEARTBEAT_S
# A consumer that nobody asks any more, because its program died, is removed by the servers after this time.
INACTIVE_S = 15.0

_HEARTBEAT = "100"
_REQUEST_ENDED = "408"
_CONFLICT = "409"
# A healthy consumer ends a request with one of these.
_ORDINARY_ENDS = ("Message Size Exceeds MaxBytes", "Batch Completed")


class Pull:
    """One ephemeral consumer, asked again and again. Raises Unavailable when it does not answer any more."""

    def __init__(self, connection: Client, names: Names) -> None:
        self._connection = connection
        self._names = names
        self._inbox = connection.new_inbox()
        self._questions = 0
        self._subscription: Subscription | None = None
        self._name = f"reader-{secrets.token_hex(8)}"  # chosen here, so that it can be removed before it is known to be made
        self._is_asked_for = False
        self._arrived: list[Found] = []
        self._due = 0  # entries that the present request may still bring
        self._news = asyncio.Event()
        self._failure = ""
        self.server = ""  # whose copy it reads; nameless where there is only one server

    async def open(self, start: int) -> None:
        """Make the consumer. Use it with a deadline."""
        context = self._connection.jetstream()
        self._subscription = await self._connection.subscribe(f"{self._inbox}.*", cb=self._on_message)
        self._is_asked_for = True
        info = await context.add_consumer(
            self._names.stream,
            api.ConsumerConfig(
                name=self._name,
                deliver_policy=api.DeliverPolicy.BY_START_SEQUENCE,
                opt_start_seq=start,
                ack_policy=api.AckPolicy.NONE,
                mem_storage=True,
                num_replicas=1,
                inactive_threshold=INACTIVE_S,
            ),
        )
        self.server = (info.cluster.leader if info.cluster else None) or ""

    async def next_run(self) -> list[Found]:
        """Wait for entries; return those that have arrived."""
        while not self._arrived:
            if self._failure:
                raise Unavailable(self._failure)
            if self._due <= 0:
                await self._ask()
            self._news.clear()
            if not self._arrived and self._due > 0 and not self._failure:
                await self._wait()
        run, self._arrived = self._arrived, []
        if self._due <= 0 and not self._failure:
            await self._ask()  # now, so that more arrives while this run is worked on
        return run

    async def _wait(self) -> None:
        try:
            async with asyncio.timeout(SILENCE_S):
                await self._news.wait()
        except TimeoutError:
            self._failure = f"consumer {self._name} is silent"

    async def _ask(self) -> None:
        self._due = RUN_ENTRIES_MAX
        self._questions += 1
        nanoseconds = 1_000_000_000
        question = {
            "batch": RUN_ENTRIES_MAX,
            "max_bytes": RUN_BYTES_MAX,
            "expires": EXPIRY_S * nanoseconds,
            "idle_heartbeat": int(HEARTBEAT_S * nanoseconds),
        }
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{self._names.stream}.{self._name}"
        await self._connection.publish(subject, json.dumps(question).encode(), reply=f"{self._inbox}.{self._questions}")

    async def _on_message(self, message: Msg) -> None:
        if message.reply:
            self._due -= 1
            self._arrived.append(found_in(message.metadata.sequence.stream, message.data, message.headers or {}))
        elif message.subject == f"{self._inbox}.{self._questions}":  # not the end of a question before
            self._on_status(message)
        self._news.set()

    def _on_status(self, message: Msg) -> None:
        headers = message.headers or {}
        status, description = headers.get("Status", ""), headers.get("Description", "")
        if status == _REQUEST_ENDED or (status == _CONFLICT and description in _ORDINARY_ENDS):
            self._due = 0
        elif status != _HEARTBEAT:
            self._failure = f"consumer {self._name} ended: {status} {description}"

    def stop(self) -> None:
        """End the wait of `next_run`."""
        self._failure = self._failure or "stopped"
        self._news.set()

    async def close(self) -> None:
        """Try to remove the consumer. If that fails the servers remove it after a while, because nobody asks it."""
        try:
            if self._subscription is not None and not self._connection.is_closed:
                await self._subscription.unsubscribe()
                if self._is_asked_for:
                    await self._connection.publish(f"$JS.API.CONSUMER.DELETE.{self._names.stream}.{self._name}", b"")
        except FOREIGN:
            pass
