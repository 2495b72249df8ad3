"""Direct get: entries from any copy, many with one request.

    $JS.API.DIRECT.GET.STREAM {"seq": 17, "batch": 512, "max_bytes": 4194304}
        ─▶ 17, 18, 19 …            each with its number in a header
        ─▶ 204 EOB                 the end; 404 when the copy has nothing from there on

Every server that has a copy answers, whichever is asked first, so that reading goes on while the stream has no leader. A copy may
be behind, and steps over entries that it cannot read: `machines/copy_judge` says what an answer is worth.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import msgspec
from nats.aio.client import Client
from nats.aio.msg import Msg

from holdfast.channel.jetstream.machines.copy_judge import Found
from holdfast.channel.jetstream.settings import CHECKSUM, Names, checksum_of
from holdfast.errors import HoldfastError, TimedOut, Unavailable, Unreachable

# The size of one answer: enough to keep a link busy, and small enough to hold twice.
RUN_ENTRIES_MAX = 512
RUN_BYTES_MAX = 4 << 20
# A server that was asked and is paused never answers; another one does.
ANSWER_S = 1.0

_END = "204"
_NOTHING = "404"
_NOBODY = "503"


def found_in(number: int, data: bytes, headers: Mapping[str, str]) -> Found:
    """Return an entry as it came, checked against the checksum in its headers."""
    checksum = checksum_of(data)
    return Found(number, data, checksum, headers.get(CHECKSUM) == f"{checksum:08x}")


class _Answer:
    def __init__(self) -> None:
        self.found: list[Found] = []
        self.problem: HoldfastError | None = None
        self.ended = asyncio.Event()


class DirectGet:
    def __init__(self, connection: Client, names: Names) -> None:
        self._connection = connection
        self._subject = f"$JS.API.DIRECT.GET.{names.stream}"
        self._inbox = connection.new_inbox()
        self._answers: dict[str, _Answer] = {}
        self._questions = 0

    async def start(self) -> None:
        await self._connection.subscribe(f"{self._inbox}.*", cb=self._on_message)

    async def get(self, first: int, count: int = RUN_ENTRIES_MAX, bytes_max: int = RUN_BYTES_MAX) -> list[Found]:
        """Return entries from `first` on, as one copy has them; none when it has none. Unavailable when nobody answers."""
        self._questions += 1
        reply = f"{self._inbox}.{self._questions}"
        answer = self._answers[reply] = _Answer()
        question = {"seq": first, "batch": count, "max_bytes": bytes_max}
        try:
            async with asyncio.timeout(ANSWER_S):
                await self._connection.publish(self._subject, msgspec.json.encode(question), reply=reply)
                await answer.ended.wait()
        except TimeoutError as problem:
            if not answer.found:
                raise TimedOut(f"reading from entry {first}: no copy answered in time; repeat it") from problem
        finally:
            del self._answers[reply]
        if answer.problem is not None and not answer.found:
            raise answer.problem
        return answer.found

    def connection_lost(self) -> None:
        """End every wait: questions and answers that were under way are lost."""
        for answer in self._answers.values():
            answer.problem = Unreachable("the connection to the cluster was lost; repeat it")
            answer.ended.set()

    async def _on_message(self, message: Msg) -> None:
        answer = self._answers.get(message.subject)
        if answer is None:
            return
        headers = message.headers or {}
        number = headers.get("Nats-Sequence")
        if number is not None:
            answer.found.append(found_in(int(number), message.data, headers))
            return
        status = headers.get("Status", "")
        if status == _NOBODY:
            answer.problem = Unreachable("no server with a copy can be reached; repeat later")
        elif status not in (_END, _NOTHING):
            answer.problem = Unavailable(f"a copy cannot be read: {status} {headers.get('Description', '')}; repeat later")
        answer.ended.set()
