"""`webhook`: POST the alert to a program, as a CloudEvent in JSON.

    do = "webhook"
    url = "https://example.com/hooks/holdfast"
    secret = "${file:/run/secrets/hook}"        # signs it
    headers = { Authorization = "Bearer ${env:HOOK_TOKEN}" }
    timeout = "10s"

Every POST of one alert has the same `Idempotency-Key` and `webhook-id`: a receiver that remembers them does it once, although a
kill or a lost answer makes us post again. The signature is that of Standard Webhooks: `webhook-signature: v1,` and the
HMAC-SHA256 of `id.timestamp.body` in base64. Any answer but 2xx is a failure; redirects are not followed.

`timeout` is for all of a POST, from looking for the host to the answer: a server that sends a letter now and then would otherwise
hold up the action for ever. The URL is no template: an event must not choose where it is posted.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import socket
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

import msgspec

from holdfast.actions.alert import TYPE, Alert
from holdfast.actions.errors import ActionFailed
from holdfast.actions.kinds.action import Action, Complaint
from holdfast.destination.settings import duration_ms
from holdfast.errors import HoldfastError

# What is read of an answer, and what of that is told.
ANSWER_BYTES_MAX = 64 << 10
SAID_LENGTH_MAX = 200
SIGNED = "whsec_"


class Webhook(Action):
    class Settings(msgspec.Struct, kw_only=True):
        url: str
        secret: str = ""
        headers: dict[str, str] = {}
        timeout: str | int | float = 10

    settings: Settings

    @classmethod
    def complaints(cls, settings: Any) -> Iterator[Complaint]:
        if sentence := _url_mistake(settings.url):
            yield "url", sentence
        for name, value in settings.headers.items():
            if not name.replace("-", "").isalnum() or not name.isascii() or not _is_header(value):
                yield "headers", f"{name!r:.40} is no header"
        try:
            _key(settings.secret)
        except binascii.Error:
            yield "secret", f"what follows {SIGNED} is not base64; give the secret as you were given it"
        try:
            if not duration_ms(settings.timeout, "timeout"):
                yield "timeout", "a webhook needs a time limit; give one like 10s"
        except HoldfastError as problem:
            yield "timeout", problem.sentence

    def do(self, alerts: Sequence[Alert]) -> None:
        for alert in alerts:
            self._post(alert)

    def _post(self, alert: Alert) -> None:
        import http.client

        parts = urlsplit(self.settings.url)
        secure = parts.scheme == "https"
        kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
        timeout_s = duration_ms(self.settings.timeout, "timeout") / 1000
        body = as_cloudevent(alert)
        link = kind(parts.hostname or "", parts.port, timeout=timeout_s)
        with _Deadline(timeout_s) as deadline:
            link._create_connection = deadline.connect  # type: ignore[attr-defined]
            try:
                target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
                link.request("POST", target, body, self.headers(alert, body, int(time.time())))
                answer = link.getresponse()
                if deadline.is_over:  # the end of the link ends heads, too
                    raise TimeoutError
                if 200 <= answer.status < 300:
                    return
                said = answer.read(ANSWER_BYTES_MAX).decode(errors="replace")
            except (OSError, http.client.HTTPException) as problem:
                why = f"within {timeout_s:g} s" if deadline.is_over else self._told(repr(problem))
                raise ActionFailed(f"{parts.hostname} did not answer: {why}") from problem
            finally:
                link.close()
        raise ActionFailed(f"{parts.hostname} answered {answer.status} {self._told(f'{answer.reason}: {said}')}")

    def _told(self, text: str) -> str:
        """What another program said: without secrets, then cut."""
        return " ".join(self.surroundings.secrets.redact(text).split())[:SAID_LENGTH_MAX]

    def headers(self, alert: Alert, body: bytes, now_s: int) -> Mapping[str, str]:
        parts = urlsplit(self.settings.url)
        key = alert.idempotency_key
        made = {
            "Content-Type": "application/cloudevents+json; charset=utf-8",
            "User-Agent": "holdfast-actions",
            "Idempotency-Key": f'"{key}"',
            "webhook-id": key,
            "webhook-timestamp": str(now_s),
            **self.settings.headers,
        }
        if self.settings.secret:
            made["webhook-signature"] = signature(self.settings.secret, key, now_s, body)
        if parts.username is not None:
            user = base64.b64encode(f"{parts.username}:{parts.password or ''}".encode()).decode()
            self.surroundings.secrets.hide(user)
            made.setdefault("Authorization", f"Basic {user}")
        return made

    def describe(self, alert: Alert) -> str:
        parts = urlsplit(self.settings.url)
        signed = "signed" if self.settings.secret else "not signed"
        return f"POST to {parts.scheme}://{parts.hostname}, {signed}: {as_cloudevent(alert).decode()}"


def as_cloudevent(alert: Alert) -> bytes:
    """The alert as a CloudEvent 1.0 in JSON."""
    return msgspec.json.encode(
        {
            "specversion": "1.0",
            "id": alert.id,
            "source": f"/holdfast/actions/{alert.program}/{alert.rule}",
            "type": TYPE,
            "time": alert.at,
            "subject": alert.key or alert.rule,
            "datacontenttype": "application/json",
            "data": alert,
        }
    )


def signature(secret: str, key: str, timestamp_s: int, body: bytes) -> str:
    """The signature of Standard Webhooks. A secret that begins with whsec_ is base64, as that says."""
    made = hmac.new(_key(secret), f"{key}.{timestamp_s}.".encode() + body, hashlib.sha256).digest()
    return f"v1,{base64.b64encode(made).decode()}"


def _key(secret: str) -> bytes:
    return base64.b64decode(secret.removeprefix(SIGNED), validate=True) if secret.startswith(SIGNED) else secret.encode()


def _url_mistake(url: str) -> str:
    """What is wrong with a URL; "" if nothing is."""
    try:
        parts = urlsplit(url)
        is_usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # no such port, or half of an address in brackets
        is_usable = False
    if not is_usable:
        return "it is no URL to post to; write it like https://example.com/hook"
    if "{" in url or "}" in url:
        return "the URL is no template: an event must not choose where it is posted; write %7B for a brace"
    if not url.isascii() or any(letter <= " " or letter == "\x7f" for letter in url):
        return "a URL has no blanks, and letters of ASCII only; write others like %20"
    return ""


def _is_header(value: str) -> bool:
    """Whether a header can have this value: one line of Latin letters."""
    try:
        return value.encode("latin-1").find(b"\n") < 0 and "\r" not in value
    except UnicodeEncodeError:
        return False


class _Deadline:
    """Cuts a connection off when its time is over, whatever it waits for."""

    def __init__(self, seconds: float) -> None:
        self.is_over = False
        self._timer = threading.Timer(seconds, self._end)
        self._timer.daemon = True
        self._lock = threading.Lock()
        self._twin: socket.socket | None = None  # of the connection: shutting it down wakes who reads from the other

    def connect(self, *arguments: Any) -> socket.socket:
        """Connect, as `http.client` asks for it."""
        made = socket.create_connection(*arguments)
        with self._lock:
            self._twin = made.dup()
            if self.is_over:
                self._shut_down()
        return made

    def _end(self) -> None:
        with self._lock:
            self.is_over = True
            self._shut_down()

    def _shut_down(self) -> None:
        if self._twin is not None:
            with suppress(OSError):
                self._twin.shutdown(socket.SHUT_RDWR)

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._timer.cancel()
        with self._lock:
            if self._twin is not None:
                self._twin.close()
                self._twin = None
