"""`webhook`: POST the alert to a program, as a CloudEvent in JSON.

    do = "webhook"
    url = "https://example.com/hooks/holdfast"
    secret = "${file:/run/secrets/hook}"        # signs it
    headers = { Authorization = "Bearer ${env:HOOK_TOKEN}" }
    timeout = "10s"

Every POST of one alert has the same `Idempotency-Key` and `webhook-id`: a receiver that remembers them does it once, although a
kill or a lost answer makes us post again. The signature is that of Standard Webhooks: `webhook-signature: v1,` and the
HMAC-SHA256 of `id.timestamp.body` in base64. Any answer but 2xx is a failure; redirects are not followed.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import msgspec

from holdfast.actions.alert import TYPE, Alert
from holdfast.actions.errors import ActionFailed
from holdfast.actions.kinds.action import Action, Complaint
from holdfast.destination.settings import duration_ms
from holdfast.errors import HoldfastError

ANSWER_BYTES_MAX = 400


class Webhook(Action):
    class Settings(msgspec.Struct, kw_only=True):
        url: str
        secret: str = ""
        headers: dict[str, str] = {}
        timeout: str | int | float = 10

    settings: Settings

    @classmethod
    def complaints(cls, settings: Any) -> Iterator[Complaint]:
        parts = urlsplit(settings.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            yield "url", "it is no URL to post to; write it like https://example.com/hook"
        for name, value in settings.headers.items():
            if not name.replace("-", "").isalnum() or "\n" in value or "\r" in value:
                yield "headers", f"{name!r:.40} is no header"
        try:
            duration_ms(settings.timeout, "timeout")
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
        timeout_s = duration_ms(self.settings.timeout, "timeout") / 1000 or None
        body = as_cloudevent(alert)
        link = kind(parts.hostname or "", parts.port, timeout=timeout_s)
        try:
            target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            link.request("POST", target, body, self.headers(alert, body, int(time.time())))
            answer = link.getresponse()
            said = answer.read(ANSWER_BYTES_MAX).decode(errors="replace")
        except (OSError, http.client.HTTPException) as problem:
            raise ActionFailed(f"{parts.hostname} did not answer: {problem!r:.200}") from problem
        finally:
            link.close()
        if not 200 <= answer.status < 300:
            raise ActionFailed(f"{parts.hostname} answered {answer.status} {answer.reason}: {' '.join(said.split())[:200]}")

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
    raw = base64.b64decode(secret[6:]) if secret.startswith("whsec_") else secret.encode()
    made = hmac.new(raw, f"{key}.{timestamp_s}.".encode() + body, hashlib.sha256).digest()
    return f"v1,{base64.b64encode(made).decode()}"
