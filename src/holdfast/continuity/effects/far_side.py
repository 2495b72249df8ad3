"""A far side: another system, over HTTP, that carries effects out. It is told each effect's key as `Idempotency-Key`.

    carry_out    the result; NotReached if it certainly saw nothing; Unknown if nobody knows what it did
    look_up      the result, "not done" or "cannot tell"

How much can be promised depends on it:

    lookup="/orders/{key}"   GET says 200 with the result, or 404: exactly once
    knows_keys=True          a key that comes again is not done again: exactly once
    neither                  at most once: an effect whose outcome is lost is refused, and an operator settles it

Calls run in threads: they are few, may take long, and go to TLS addresses as well.
"""

from __future__ import annotations

import asyncio
import http.client
import ssl
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Literal
from urllib.parse import quote, urlsplit

from holdfast.continuity.answer import HOP_BY_HOP
from holdfast.continuity.domain import checked_name
from holdfast.continuity.effects.effect_events import Ask
from holdfast.continuity.machines.effects import Identity, Result, traceparent_of
from holdfast.continuity.request import Headers
from holdfast.errors import BadSetting, BadUrl

TIMEOUT_SECONDS = 30.0
# Results travel as events, and are kept in memory.
RESULT_BYTES_MAX = 1 << 20
CALLS_MAX = 32
_LEFT_OUT = HOP_BY_HOP | {b"content-length", b"date", b"server"}


class NotReached(Exception):
    """The far side took no connection: it saw nothing."""


class Unknown(Exception):
    """The call has no whole answer: the far side may have carried it out."""


class FarSide:
    """One far side. `close` ends its threads."""

    def __init__(
        self, name: str, url: str, *, lookup: str = "", knows_keys: bool = False, timeout: float = TIMEOUT_SECONDS,
        tls: ssl.SSLContext | None = None,
    ) -> None:  # fmt: skip
        """`lookup`: the path at which an effect is looked up; `{key}` stands for its key. `tls`: for https; the system's
        authorities if it is not said."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.username:
            raise BadUrl(f"{url!r:.80} is no URL of a far side; write http://HOST:PORT or https://HOST/PATH")
        if lookup and "{key}" not in lookup:
            raise BadUrl(f"{lookup!r:.80} says nowhere which effect is meant; write it like /orders/{{key}}")
        self.name = name
        self.url = url
        self.knows_keys = knows_keys
        self._lookup = lookup
        self._host, self._port, self._path = parts.hostname, parts.port, parts.path.rstrip("/")
        self._tls = (tls or ssl.create_default_context()) if parts.scheme == "https" else None
        self._timeout = timeout
        self._threads = ThreadPoolExecutor(CALLS_MAX, f"effects-{name}")

    async def carry_out(self, ask: Ask) -> Result:
        """Send what was asked for, with the effect's key, and the trace by which a call back is known (continuity rule 13)."""
        trace = traceparent_of(ask.identity.transaction).encode()
        headers = [*ask.headers, (b"idempotency-key", ask.identity.key.encode()), (b"traceparent", trace)]
        return await self._in_thread(ask.method, ask.target, headers, ask.body)

    async def look_up(self, identity: Identity) -> Result | Literal["not done", "cannot tell"]:
        """Ask whether it was done. NotReached or Unknown if no answer came: ask again."""
        if not self._lookup:
            return "not done" if self.knows_keys else "cannot tell"
        found = await self._in_thread("GET", self._lookup.replace("{key}", quote(identity.key, safe="")), [], b"")
        if found.status == 200:
            return found
        if found.status in (404, 410):
            return "not done"
        raise Unknown(f"the look-up at {self.url} says {found.status}")

    async def _in_thread(self, method: str, target: str, headers: Headers, body: bytes) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._call, method, target, headers, body)

    def _call(self, method: str, target: str, headers: Headers, body: bytes) -> Result:
        connection = self._connection()
        try:
            connection.connect()
        except (OSError, http.client.HTTPException) as problem:
            connection.close()
            raise NotReached(f"{self.url} takes no connection: {problem}") from problem
        try:
            return self._converse(connection, method, target, headers, body)
        except (OSError, http.client.HTTPException, ValueError) as problem:
            raise Unknown(f"{self.url} gave no whole answer: {problem or type(problem).__name__}") from problem
        finally:
            connection.close()

    def _connection(self) -> http.client.HTTPConnection:
        if self._tls is None:
            return http.client.HTTPConnection(self._host, self._port, timeout=self._timeout)
        return http.client.HTTPSConnection(self._host, self._port, timeout=self._timeout, context=self._tls)

    def _converse(
        self, connection: http.client.HTTPConnection, method: str, target: str, headers: Headers, body: bytes
    ) -> Result:
        connection.putrequest(method, self._path + target, skip_accept_encoding=True)
        for name, value in headers:
            connection.putheader(name.decode("latin-1"), value)
        if body or method in ("POST", "PUT", "PATCH"):
            connection.putheader("content-length", str(len(body)))
        connection.endheaders(body or None)
        answer = connection.getresponse()
        read = b""
        while len(read) <= RESULT_BYTES_MAX and (more := answer.read(RESULT_BYTES_MAX)):
            read += more
        if len(read) > RESULT_BYTES_MAX:
            raise ValueError(f"the answer has more than {RESULT_BYTES_MAX:,} bytes")
        if not answer.chunked and answer.length != 0:  # its end cannot be told from a loss (22)
            raise ValueError("the answer was cut short")
        told = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in answer.getheaders()]
        return Result(answer.status, [each for each in told if each[0] not in _LEFT_OUT], read)

    def close(self) -> None:
        """End its threads; calls under way end by themselves."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def far_sides(
    urls: Iterable[str], lookups: Iterable[str], knowing_keys: Iterable[str], tls: ssl.SSLContext | None = None
) -> list[FarSide]:
    """The far sides that a command line names: NAME=URL, NAME=PATH and NAME. BadSetting for one that is not complete."""
    named = dict(_named(each, "--far") for each in urls)
    paths = dict(_named(each, "--lookup") for each in lookups)
    knowing = list(knowing_keys)
    strangers = [name for name in (*paths, *knowing) if name not in named]
    if strangers or not named:
        raise BadSetting(f"say where {', '.join(strangers) or 'effects go'}: --far NAME=URL", setting="far")
    return [FarSide(name, url, lookup=paths.get(name, ""), knows_keys=name in knowing, tls=tls) for name, url in named.items()]


def _named(text: str, option: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not value:
        raise BadSetting(f"{option} {text!r:.80} is not complete; write it like {option} exchange=…", setting=option.strip("-"))
    return checked_name(name, "far side"), value
