"""`log`: write a line to a file that is rotated, to syslog or to the journal of systemd.

    do = "log"
    file = "alerts.log"                  # or: to = "syslog", to = "journald"
    line = "{at} {severity} {summary}"   # or: format = "json" for all of the alert
    size = "10M"                         # then it becomes alerts.log.1
    keep = 5

A line of a file is synced to disk before its alert is confirmed. After a kill between the two it is written again: lines can be
there twice, with the same id. A kill in the middle of a line leaves a piece of it: the next write takes the piece away, since its
alert was not confirmed and is written again. Programs that share a file take turns by a kernel lock on it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Literal

import msgspec

from holdfast.actions.alert import Alert
from holdfast.actions.errors import ActionFailed
from holdfast.actions.kinds.action import Action, Complaint
from holdfast.errors import HoldfastError
from holdfast.node.settings import parse_size

LINE = "{at} {severity} {rule}: {summary} (alert {id})"
SOCKETS = {"syslog": "/dev/log", "journald": "/run/systemd/journal/socket"}
# Of RFC 5424.
SEVERITY = {"info": 6, "warning": 4, "error": 3, "critical": 2}
FACILITY_DAEMON = 3
BLOCK_BYTES = 1 << 16
# All that some reader takes for the end of a line, and what a terminal would obey.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")


class Log(Action):
    class Settings(msgspec.Struct, kw_only=True):
        to: Literal["file", "syslog", "journald"] = "file"
        file: str = ""
        line: str = LINE
        format: Literal["text", "json"] = "text"
        size: str = "10M"
        keep: int = 5
        socket: str = ""

    settings: Settings
    TEMPLATES = ("line",)
    BATCH_MAX = 100

    @classmethod
    def complaints(cls, settings: Any) -> Iterator[Complaint]:
        if (settings.to == "file") != bool(settings.file):
            yield "file" if settings.file else "", 'a log goes to a file, as in file = "alerts.log", or to syslog or journald'
        if not 0 <= settings.keep <= 1_000:
            yield "keep", "keep is a number of files from 0 to 1,000"
        try:
            parse_size(settings.size, "size")
        except HoldfastError as problem:
            yield "size", problem.sentence

    def do(self, alerts: Sequence[Alert]) -> None:
        if self.settings.to == "file":
            self._write("".join(f"{self._line(alert)}\n" for alert in alerts).encode(errors="replace"))
            return
        for alert in alerts:
            self._send(self._datagram(alert))

    def _line(self, alert: Alert) -> str:
        if self.settings.format == "json":
            return msgspec.json.encode(alert).decode()
        return _CONTROL.sub(" ", self.filled("line", alert))

    # --- a file ------------------------------------------------------------------------------------------------------

    def _write(self, lines: bytes) -> None:
        file = self.surroundings.path(self.settings.file)
        most = parse_size(self.settings.size, "size")
        try:
            if most and file.exists() and file.stat().st_size + len(lines) > most:
                self._rotate(file)
            with file.open("a+b") as log:
                fcntl.flock(log, fcntl.LOCK_EX)
                _remove_torn_line(log)
                log.write(lines)
                log.flush()
                os.fsync(log.fileno())
        except OSError as problem:
            raise ActionFailed(f"{file} cannot be written: {problem.strerror}") from problem

    def _rotate(self, file: Path) -> None:
        """alerts.log.1 becomes alerts.log.2, and so on; the oldest goes."""
        numbered = [file, *(file.with_name(f"{file.name}.{number}") for number in range(1, self.settings.keep + 1))]
        if len(numbered) == 1:
            file.unlink()
        for older, newer in zip(reversed(numbered[1:]), reversed(numbered[:-1]), strict=True):
            with contextlib.suppress(FileNotFoundError):
                newer.replace(older)

    # --- syslog, journald --------------------------------------------------------------------------------------------

    def _datagram(self, alert: Alert) -> bytes:
        level, line = SEVERITY.get(alert.severity, 6), self._line(alert)
        if self.settings.to == "syslog":
            return f"<{FACILITY_DAEMON * 8 + level}>holdfast[{os.getpid()}]: {line}".encode(errors="replace")
        fields = {
            "MESSAGE": line, "PRIORITY": str(level), "SYSLOG_IDENTIFIER": "holdfast", "HOLDFAST_RULE": alert.rule,
            "HOLDFAST_ALERT": alert.id, "HOLDFAST_KEY": _CONTROL.sub(" ", alert.key),
        }  # fmt: skip
        return "".join(f"{name}={value}\n" for name, value in fields.items()).encode(errors="replace")

    def _send(self, datagram: bytes) -> None:
        address = self.settings.socket or SOCKETS[self.settings.to]
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as link:
            try:
                link.settimeout(10)
                link.sendto(datagram, address)
            except OSError as problem:
                raise ActionFailed(f"{self.settings.to} at {address} takes no line: {problem.strerror or problem}") from problem

    def describe(self, alert: Alert) -> str:
        return f"write to {self.settings.file or self.settings.to}: {self._line(alert)}"


def _remove_torn_line(log: BinaryIO) -> None:
    """Cut the file after its last line break, if it ends with a piece of a line."""
    end = log.seek(0, os.SEEK_END)
    if not end:
        return
    log.seek(end - 1)
    if log.read(1) == b"\n":
        return
    whole = end
    while whole:
        start = max(0, whole - BLOCK_BYTES)
        log.seek(start)
        found = log.read(whole - start).rfind(b"\n")
        if found >= 0:
            log.truncate(start + found + 1)
            return
        whole = start
    log.truncate(0)
