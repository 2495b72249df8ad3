"""A filter of dead events: by the queue or topic that gave them up, by the code of the reason, and by when."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from holdfast.client.checks import check_name
from holdfast.client.receiving.death import Death
from holdfast.client.receiving.received_event import Received
from holdfast.destination.settings import duration_ms
from holdfast.errors import BadSetting

# The reasons for which events are given up, for programs.
CODES = ("expired", "redelivered", "failed", "rejected", "no-destination", "deleted", "unreadable")
# How long ago: "1h", "90s", seconds, or a timedelta; or a time.
Since = str | float | timedelta | datetime


class DeadFilter(NamedTuple):
    """An event passes if one of its deaths has everything that is asked for."""

    queue: str | None = None
    code: str | None = None
    since: datetime | None = None

    @classmethod
    def of(cls, queue: str | None, code: str | None, since: Since | None) -> DeadFilter:
        if queue is not None:
            check_name(queue)
        if code is not None and code not in CODES:
            raise BadSetting(f"events do not die of {code!r:.40}; the codes are: {', '.join(CODES)}", setting="code")
        return cls(queue, code, None if since is None else _time(since))

    @property
    def is_open(self) -> bool:
        """Whether nothing is asked for."""
        return self == DeadFilter()

    def passes(self, event: Received) -> bool:
        return self.is_open or any(self._is_meant(event, death) for death in event.dead)

    def _is_meant(self, event: Received, death: Death) -> bool:
        if self.queue is not None and self.queue not in (death.destination, event.destination):
            return False
        if self.code is not None and death.code != self.code:
            return False
        return self.since is None or (death.when is not None and death.when >= self.since)


def _time(since: Since) -> datetime:
    if isinstance(since, datetime):
        if since.tzinfo is None:
            raise BadSetting(f"since {since} has no time zone; say which, such as datetime.now(UTC)", setting="since")
        return since
    ago = since if isinstance(since, timedelta) else timedelta(milliseconds=duration_ms(since, "since"))
    try:
        return datetime.now(UTC) - ago
    except OverflowError as problem:
        raise BadSetting(f"since {since!r:.40} is before all times; leave it out", setting="since") from problem
