"""A `logging` handler that loses nothing: each log record becomes an event on disk before the program goes on.

    logging.getLogger().addHandler(EventHandler("./recorder", destination="log"))

It is built on a `Recorder`: no server, network or loop is needed, and the events are forwarded with the recorder. A log record
becomes an event of type `log.<level>` with the message, its place and its exception as data. Level and logger are properties too,
for selectors.

Holdfast's own loggers are left out. Recording and forwarding may log, and each such record would cause the next one.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from holdfast.destination.name import check_destination
from holdfast.event.event import Event
from holdfast.recorder.recorder import Recorder
from holdfast.recorder.recorder_contents import Kind

DESTINATION_DEFAULT = "log"
OWN_LOGGERS = "holdfast"


class EventHandler(logging.Handler):
    """Hands log records to a Recorder: to the given one, which the caller closes, or to that of a folder, opened here.

    It never raises into the program: an error goes to `logging.Handler.handleError`, and is counted in `missed`.
    """

    def __init__(
        self,
        recorder: Recorder | str | Path,
        destination: str = DESTINATION_DEFAULT,
        kind: Kind = "queue",
        level: int | str = logging.NOTSET,
    ) -> None:
        super().__init__(level)
        check_destination(destination)
        self._is_ours = not isinstance(recorder, Recorder)
        self.recorder = recorder if isinstance(recorder, Recorder) else Recorder(recorder, source="logging")
        self.destination = destination
        self.kind = kind
        self.missed = 0

    def emit(self, record: logging.LogRecord) -> None:
        if record.name.partition(".")[0] == OWN_LOGGERS:
            return
        try:
            self.recorder.record(self.event_of(record), self.destination, self.kind)
        except Exception:
            self.missed += 1
            self.handleError(record)

    def event_of(self, record: logging.LogRecord) -> Event:
        """Return the event of a log record."""
        level = record.levelname
        return Event(
            type=f"log.{level.lower()}",
            time=datetime.fromtimestamp(record.created, UTC),
            data=self._data(record),
            properties={"level": level, "logger": record.name},
        )

    def _data(self, record: logging.LogRecord) -> dict[str, Any]:
        formatter = self.formatter or _PLAIN
        data: dict[str, Any] = {
            "message": record.getMessage(),
            "logger": record.name,
            "level": record.levelname,
            "path": record.pathname,
            "line": record.lineno,
            "function": record.funcName,
            "process": record.process,
            "thread": record.threadName,
        }
        if record.exc_info:
            data["exception"] = formatter.formatException(record.exc_info)
        if record.stack_info:
            data["stack"] = record.stack_info
        return data

    def close(self) -> None:
        if self._is_ours:
            self.recorder.close()
        super().close()


_PLAIN = logging.Formatter()
