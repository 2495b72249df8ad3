"""The reader: entries from any number on, in order, without a gap.

An ephemeral pull consumer (memory, no acknowledgements, a start sequence) hands out entries. When anything is wrong with it, it
is thrown away and another is made at the number that is due. So only time can be lost between server and reader.

A skipped number is asked for by itself: from the leader, then from any copy. If nobody has it and it was not released, it is
damage, and is reported: a flipped bit in a file can make a server leave out messages in silence.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from itertools import count, takewhile

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.js import api

from holdfast.channel.channel import Entry
from holdfast.channel.jetstream.entries import Entries
from holdfast.channel.jetstream.nats_errors import FOREIGN, translate
from holdfast.channel.jetstream.settings import Names
from holdfast.errors import HoldfastError, OutcomeUnknown, Unavailable

log = logging.getLogger(__name__)

# The size of one request: enough to keep a link busy, and small enough to hold twice (one being read, one arriving).
RUN_ENTRIES_MAX = 512
RUN_BYTES_MAX = 4 << 20
EXPIRY_S = 30
HEARTBEAT_S = 1
SILENCE_S = 3 * HEARTBEAT_S
INACTIVE_S = 60.0
PAUSE_MIN_S = 0.05
PAUSE_MAX_S = 1.0

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
        self._name = ""
        self._arrived: list[Entry] = []
        self._due = 0  # entries that the present request may still bring
        self._news = asyncio.Event()
        self._failure = ""

    async def open(self, start: int) -> None:
        context = self._connection.jetstream()
        self._subscription = await self._connection.subscribe(f"{self._inbox}.*", cb=self._on_message)
        info = await context.add_consumer(
            self._names.stream,
            api.ConsumerConfig(
                deliver_policy=api.DeliverPolicy.BY_START_SEQUENCE,
                opt_start_seq=start,
                ack_policy=api.AckPolicy.NONE,
                mem_storage=True,
                num_replicas=1,
                inactive_threshold=INACTIVE_S,
            ),
        )
        self._name = info.name

    async def next_run(self) -> list[Entry]:
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
            await asyncio.wait_for(self._news.wait(), SILENCE_S)
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
            "idle_heartbeat": HEARTBEAT_S * nanoseconds,
        }
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{self._names.stream}.{self._name}"
        await self._connection.publish(subject, json.dumps(question).encode(), reply=f"{self._inbox}.{self._questions}")

    async def _on_message(self, message: Msg) -> None:
        if message.reply:
            self._due -= 1
            self._arrived.append(Entry(message.metadata.sequence.stream, message.data))
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
                if self._name:
                    await self._connection.publish(f"$JS.API.CONSUMER.DELETE.{self._names.stream}.{self._name}", b"")
        except FOREIGN:
            pass


class Reader:
    """Yields every entry from a number on, whatever happens to consumers on the way."""

    def __init__(self, connection: Client, names: Names, entries: Entries, check_open: Callable[[], None]) -> None:
        self._connection = connection
        self._names = names
        self._entries = entries
        self._check_open = check_open
        self._pull: Pull | None = None
        self._pause_s = PAUSE_MIN_S

    def renew(self) -> None:
        """Ask again: the request may have been lost with a connection."""
        if self._pull is not None:
            self._pull.stop()

    async def runs(self, start: int) -> AsyncGenerator[Sequence[Entry], None]:
        number = start
        try:
            while True:
                run = await self._next_run(number)
                if run:
                    number += len(run)
                    yield run
        finally:
            await self._drop_pull()

    async def _next_run(self, number: int) -> list[Entry]:
        """Return entries from `number` on without a gap; none after a failure that may pass."""
        self._check_open()
        try:
            run = await self._arrived_from(number)
            whole = _without_gap(run, number)
            if len(whole) < len(run):
                await self._drop_pull()
            if not whole:
                whole = [Entry(number, await self._entries.get(number))]
        except FOREIGN as problem:
            await self._recover(translate(problem, f"reading from entry {number}"))
            return []
        except HoldfastError as problem:
            await self._recover(problem)
            return []
        self._pause_s = PAUSE_MIN_S
        return whole

    async def _arrived_from(self, number: int) -> list[Entry]:
        if self._pull is None:
            await self._entries.check_held(number)
            self._pull = Pull(self._connection, self._names)
            await self._pull.open(number)
        return await self._pull.next_run()

    async def _recover(self, problem: HoldfastError) -> None:
        """Wait if the problem may pass; otherwise raise it."""
        await self._drop_pull()
        self._check_open()
        if not isinstance(problem, Unavailable | OutcomeUnknown):
            raise problem
        log.warning("channel %s: %s", self._names.channel, problem)
        await asyncio.sleep(self._pause_s)
        self._pause_s = min(2 * self._pause_s, PAUSE_MAX_S)

    async def _drop_pull(self) -> None:
        pull, self._pull = self._pull, None
        if pull is not None:
            await pull.close()


def _without_gap(run: list[Entry], number: int) -> list[Entry]:
    """Return the part of a run that begins with `number` and has no gap."""
    if run[0].number == number and run[-1].number == number + len(run) - 1:
        return run
    return [entry for entry, _ in takewhile(lambda pair: pair[0].number == pair[1], zip(run, count(number)))]
