"""A bucket on NATS: a stream that keeps the newest message of each subject, as its key-value buckets are.

    $KV.BUCKET.KEY            one subject for each key; the revision of an entry is its number in the stream
    hf.changed.BUCKET.KEY     the servers tell there that something was stored: whoever watches reads on

    watch:  told, or a second passed ─▶ the stream's last number ─▶ entries from the last one seen up to it, in runs

Reading on by number is the whole of watching: there is no consumer whose state could be lost with a server or a connection.
Copies may lag behind the leader: what is missing is asked for again. Each question has an end in time, because calls of nats-py
may hang.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import logging
from collections.abc import Mapping
from typing import Any

import msgspec

from holdfast.bus.bucket import Entry, OnEntry, Stop
from holdfast.bus.nats.connection import Answer, NatsConnection
from holdfast.bus.nats.subjects import text_of_token, token
from holdfast.errors import HoldfastError, OutcomeUnknown, TimedOut, Unavailable, Unreachable

log = logging.getLogger("holdfast.bus")

# How often the stream is looked at when nobody tells of a change.
LOOK_S = 1.0
# A copy that lags is asked again so soon, and for so long.
AGAIN_S = 0.02
BEHIND_S = 5.0
# The size of one run of entries.
RUN_ENTRIES_MAX = 1_000
RUN_BYTES_MAX = 4 << 20

# The second is said while the change of another is being stored.
_WRONG_REVISION = (10071, 10164)
_OTHER_SETTINGS = 10058
_NO_MESSAGE = 10037


class _Message(msgspec.Struct):
    subject: str
    seq: int
    data: str = ""
    hdrs: str = ""


class _Error(msgspec.Struct):
    code: int = 0
    err_code: int = 0
    description: str = ""


class _State(msgspec.Struct):
    last_seq: int = 0


class _Reply(msgspec.Struct):
    """An answer of JetStream; each kind has some of these."""

    error: _Error | None = None
    message: _Message | None = None
    state: _State = msgspec.field(default_factory=_State)
    seq: int = 0


class NatsBucket:
    def __init__(self, connection: NatsConnection, name: str, timeout_s: float) -> None:
        """Use a bucket that is there (`open`)."""
        self._connection = connection
        self._timeout_s = timeout_s
        self._stream = f"KV_{name}"
        self._subject = f"$KV.{name}."
        self._changed = f"hf.changed.{name}.>"

    @classmethod
    async def open(cls, connection: NatsConnection, name: str, replicas: int, timeout_s: float = 5.0) -> NatsBucket:
        """Make the bucket, unless it is there. Its name has letters, digits, _ and -. Unavailable when NATS cannot say."""
        bucket = cls(connection, name, timeout_s)
        reply = await bucket._ask("STREAM.CREATE", bucket._settings(replicas))
        if reply.error is not None and reply.error.err_code != _OTHER_SETTINGS:  # then it was made with others, and is there
            raise bucket._refused("making it", reply.error)
        return bucket

    def _settings(self, replicas: int) -> dict[str, Any]:
        return {
            "name": self._stream,
            "subjects": [f"{self._subject}>"],
            "retention": "limits",
            "storage": "file",
            "discard": "new",
            "num_replicas": replicas,
            "max_msgs_per_subject": 1,
            "max_msgs": -1,
            "max_bytes": -1,
            "max_age": 0,
            "deny_delete": True,
            "allow_rollup_hdrs": True,
            "allow_direct": True,
            "republish": {"src": f"{self._subject}>", "dest": self._changed, "headers_only": True},
        }

    # --- one key -------------------------------------------------------------------------------------------------------

    async def get(self, key: str) -> Entry | None:
        reply = await self._ask("STREAM.MSG.GET", {"last_by_subj": self._subject + token(key)})
        if reply.message is not None:
            found = reply.message
            is_deleted = "KV-Operation" in base64.b64decode(found.hdrs).decode(errors="replace")
            return Entry(key, b"" if is_deleted else base64.b64decode(found.data), found.seq)
        if reply.error is not None and reply.error.err_code != _NO_MESSAGE:
            raise self._refused(f"reading {key}", reply.error)
        return None

    async def put(self, key: str, value: bytes, after: int = 0) -> int | None:
        headers = {"Nats-Expected-Stream": self._stream, "Nats-Expected-Last-Subject-Sequence": str(after)}
        deadline = asyncio.get_running_loop().time() + self._timeout_s
        is_sent = False
        while True:
            try:
                answer = await self._connection.ask(self._subject + token(key), value, headers, timeout_s=self._timeout_s / 2)
            except TimedOut:
                is_sent = True
            except Unreachable:
                if not is_sent:
                    raise
            else:
                reply = self._read(answer)
                if reply.error is None:
                    return reply.seq
                if reply.error.err_code not in _WRONG_REVISION:
                    raise self._refused(f"setting {key}", reply.error)
                return await self._own(key, value, after) if is_sent else None
            if asyncio.get_running_loop().time() > deadline:
                raise OutcomeUnknown(f"bucket {self._stream}: setting {key} was not answered; read it again before you repeat it")

    async def _own(self, key: str, value: bytes, after: int) -> int | None:
        """The revision of a value that an attempt without an answer has set; None if another has set one."""
        try:
            found = await self.get(key)
        except Unavailable as problem:
            raise OutcomeUnknown(f"{problem}; setting {key} may have happened: read it again") from problem
        return found.revision if found is not None and found.value == value and found.revision > after else None

    # --- all keys ------------------------------------------------------------------------------------------------------

    async def watch(self, on_entry: OnEntry) -> Stop:
        told = asyncio.Event()
        stop_hearing = self._connection.subscribe(self._changed, lambda _: told.set())
        try:
            seen = await self._read_on(0, on_entry)
        except BaseException:
            stop_hearing()
            raise
        watching = asyncio.create_task(self._keep_reading(seen, on_entry, told))

        def stop() -> None:
            stop_hearing()
            watching.cancel()

        return stop

    async def _keep_reading(self, seen: int, on_entry: OnEntry, told: asyncio.Event) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    await told.wait()
            told.clear()
            try:
                seen = await self._read_on(seen, on_entry)
            except HoldfastError as problem:
                log.debug("bucket %s is read again later: %s", self._stream, problem)

    async def _read_on(self, seen: int, on_entry: OnEntry) -> int:
        """Tell all entries above `seen`, or all there are where the bucket was made anew; the number of the last."""
        last = (await self._checked("STREAM.INFO", {})).state.last_seq
        seen = seen if seen <= last else 0
        deadline = asyncio.get_running_loop().time() + BEHIND_S
        while seen < last:
            asked = {"seq": seen + 1, "next_by_subj": ">", "batch": RUN_ENTRIES_MAX, "max_bytes": RUN_BYTES_MAX}
            answers = await self._connection.ask_many(
                f"$JS.API.DIRECT.GET.{self._stream}", msgspec.json.encode(asked), timeout_s=self._timeout_s
            )
            for answer in answers:
                entry = self._entry(answer)
                if entry.revision > seen:
                    seen = entry.revision
                    self._tell(entry, on_entry)
            if not answers:
                if asyncio.get_running_loop().time() > deadline:
                    raise Unavailable(f"bucket {self._stream}: its copies lag behind its leader; repeat later")
                await asyncio.sleep(AGAIN_S)
        return seen

    def _entry(self, answer: Answer) -> Entry:
        key = text_of_token(answer.headers["Nats-Subject"].removeprefix(self._subject))
        value = b"" if "KV-Operation" in answer.headers else answer.data
        return Entry(key, value, int(answer.headers["Nats-Sequence"]))

    def _tell(self, entry: Entry, on_entry: OnEntry) -> None:
        try:
            on_entry(entry)
        except Exception as problem:  # the next one is told all the same
            log.error("bucket %s: what was done about %s failed: %r", self._stream, entry.key, problem)
            log.debug("bucket %s: what was done about %s failed", self._stream, entry.key, exc_info=problem)

    # --- questions -----------------------------------------------------------------------------------------------------

    async def _checked(self, what: str, asked: Mapping[str, Any]) -> _Reply:
        reply = await self._ask(what, asked)
        if reply.error is not None:
            raise self._refused(what, reply.error)
        return reply

    async def _ask(self, what: str, asked: Mapping[str, Any]) -> _Reply:
        subject = f"$JS.API.{what}.{self._stream}"
        return self._read(await self._connection.ask(subject, msgspec.json.encode(asked), timeout_s=self._timeout_s))

    def _read(self, answer: Answer) -> _Reply:
        try:
            return msgspec.json.decode(answer.data, type=_Reply)
        except msgspec.DecodeError as problem:
            raise Unavailable(f"bucket {self._stream}: the answer of NATS cannot be read ({problem}); repeat later") from problem

    def _refused(self, doing: str, error: _Error) -> HoldfastError:
        return Unavailable(
            f"bucket {self._stream}: {doing}: the cluster says {error.description!r} ({error.err_code}); repeat later",
            err_code=error.err_code,
        )
