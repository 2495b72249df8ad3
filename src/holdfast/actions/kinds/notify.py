"""`notify`: tell people by mail, chat or pager, through `apprise` (the extra `actions`).

    do = "notify"
    to = ["mailto://user:${env:SMTP_PASSWORD}@example.com?to=night@example.com", "slack://…"]
    title = "[{severity}] {summary}"
    body = "{reason}: {keys}"

Each address is told once for each alert, as long as the program lives: if one of several fails, only that one is tried again.
After a kill in the middle, all are told again: a person may get the same mail twice.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from holdfast.actions.alert import Alert
from holdfast.actions.errors import ActionFailed
from holdfast.actions.kinds.action import Action, Complaint, Surroundings

TITLE = "[{severity}] {summary}"
BODY = "{reason}\nkeys: {keys|none}\nevents: {count}, not told before: {suppressed}\nat: {at}\nalert: {id}"
# Alerts of which the addresses that were told are remembered.
REMEMBERED_MAX = 1_000
SAID_LENGTH_MAX = 800
MISSING = "notify needs a package that is not installed; install it: pip install 'holdfast[actions]'"


class Notify(Action):
    class Settings(msgspec.Struct, kw_only=True):
        to: list[str]
        title: str = TITLE
        body: str = BODY

    settings: Settings
    TEMPLATES = ("title", "body")

    def __init__(self, settings: Any, surroundings: Surroundings) -> None:
        super().__init__(settings, surroundings)
        self._told: OrderedDict[str, set[int]] = OrderedDict()

    @classmethod
    def complaints(cls, settings: Any) -> Iterator[Complaint]:
        try:
            import apprise
        except ImportError:
            yield "", MISSING
            return
        _keep_to_ourselves()
        if not settings.to:
            yield "to", "there is nobody to notify; give an address"
        for number, url in enumerate(settings.to):
            if apprise.Apprise.instantiate(url, suppress_exceptions=True) is None:
                scheme = url.partition("://")[0]
                yield "to", f"address {number + 1} ({scheme:.20}://…) is none that apprise knows; see its list of services"

    def do(self, alerts: Sequence[Alert]) -> None:
        for alert in alerts:
            told = self._told.setdefault(alert.id, set())
            while len(self._told) > REMEMBERED_MAX:
                self._told.popitem(last=False)
            for number, url in enumerate(self.settings.to):
                if number not in told:
                    self._notify(number, url, alert)
                    told.add(number)
            self._told.pop(alert.id, None)

    def _notify(self, number: int, url: str, alert: Alert) -> None:
        import apprise

        _keep_to_ourselves()
        asset = apprise.AppriseAsset(secure_logging=True, async_mode=False, app_id="holdfast")
        service = apprise.Apprise(asset=asset)
        service.add(url)
        kinds = {"info": "info", "warning": "warning", "error": "failure", "critical": "failure"}
        with _Said() as said:
            is_done = service.notify(
                title=self.filled("title", alert), body=self.filled("body", alert), notify_type=kinds.get(alert.severity, "info")
            )
        if not is_done:
            why = self.surroundings.secrets.redact(said.text)[:SAID_LENGTH_MAX] or "apprise does not say why"
            raise ActionFailed(f"address {number + 1} was not notified: {why}")

    def describe(self, alert: Alert) -> str:
        named = ", ".join(url.partition("://")[0] for url in self.settings.to)
        return f"notify {named}: {self.filled('title', alert)}\n{self.filled('body', alert)}"


def _keep_to_ourselves() -> None:
    """Let no line of apprise reach a log: they show addresses with what must not be told."""
    logging.getLogger("apprise").propagate = False


class _Said(logging.Handler):
    """Hears what apprise logs in this thread: it tells nothing else about a failure."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self._thread = threading.get_ident()
        self._lines: list[str] = []
        self._log = logging.getLogger("apprise")

    @property
    def text(self) -> str:
        return " ".join(self._lines[-4:])

    def emit(self, record: logging.LogRecord) -> None:
        is_said = record.levelno >= logging.WARNING or "xception" in record.getMessage()
        if is_said and threading.get_ident() == self._thread:
            self._lines.append(record.getMessage())

    def __enter__(self) -> _Said:
        self._log.addHandler(self)
        if self._log.level == logging.NOTSET or self._log.level > logging.DEBUG:
            self._log.setLevel(logging.DEBUG)
        return self

    def __exit__(self, *exc: object) -> None:
        self._log.removeHandler(self)
