"""The settings of a channel on JetStream, and how its sizes follow from each other.

    │◀──────────── size_bytes ─────────────▶│
    │ ordinary │ reserve │      upkeep      │ a quarter more, and a window for each appender │
               ▲         ▲                                                                  ▲
            is_short   events Blocked                                      the stream's own limit (max_bytes)

At its own limit a stream refuses confirmations too, and without them nothing is ever released. So events are blocked well below
it. That holds even when many appenders, each with the fill of a second ago, go on until their windows are full. If the limit is
reached all the same, it is raised for upkeep, by `upkeep_bytes` at a time, and lowered again when there is space.
"""

from __future__ import annotations

import re
import ssl
from typing import Any

import crc32c
import msgspec

from holdfast.channel.channel import COMMAND_BYTES_MAX, Buffer
from holdfast.errors import BadName, BadSetting

MIB = 1 << 20
# At most so many bytes stand beside the command in the record of a message; `Names.record_overhead_bytes` is exact.
RECORD_OVERHEAD_BYTES_MAX = 320
# Fragments of large events that are sent and not yet acknowledged. With more, everybody else waits longer.
FRAGMENTS_BYTES_MAX = MIB
# How often the stream's own limit may be raised for upkeep before it was lowered again.
RAISES_MAX = 4
# The servers remember the ids of commands for so long.
REMEMBERED_IDS_S = 120
APPEND_TIMEOUT_MS_MAX = REMEMBERED_IDS_S * 1000 // 2
# A reserve of R bytes of commands (of 256 or more each) takes at most twice as much of the stream.
RECORD_FACTOR_MAX = 2

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")


class JetStreamSettings(msgspec.Struct, frozen=True, kw_only=True):
    """`servers`: `nats://host:port`. `monitors`: `http://host:port` of every server that may hold a copy."""

    servers: tuple[str, ...]
    monitors: tuple[str, ...]
    replicas: int = 3
    size_bytes: int = 4096 * MIB
    reserve_bytes: int = 16 * MIB
    upkeep_bytes: int = 24 * MIB
    stretch_bytes: int = 8 * MIB  # upkeep frees so much at a time
    window: int = 256  # commands sent and not yet acknowledged
    window_bytes: int = 4 * MIB
    waiting_bytes_max: int = 64 * MIB  # commands appended and not yet sent
    appenders_max: int = 8  # programs that append to this channel
    timeout_ms: int = 5_000  # for each question
    attempt_ms: int = 2_000  # an append without a word for so long is sent again
    append_timeout_ms: int = 20_000  # an append is repeated for so long: an election takes 4 to 10 s
    connect_options: dict[str, Any] = {}  # handed to nats.connect: user, password, tls, …
    monitor_tls: ssl.SSLContext | None = None  # for monitors at https://; None: as this machine believes certificates

    def __post_init__(self) -> None:
        if not self.servers or not self.monitors:
            raise BadSetting("servers and monitors must not be empty; name a nats:// and an http:// address of each server")
        if self.replicas not in (1, 3, 5):
            raise BadSetting(f"replicas {self.replicas} is not possible; use 3 or 5, or 1 where one machine is enough")
        if min(self.reserve_bytes, self.upkeep_bytes) < 0 or self.ordinary_limit_bytes <= 0:
            raise BadSetting(
                f"size_bytes {self.size_bytes} leaves nothing beside reserve_bytes {self.reserve_bytes} and upkeep_bytes "
                f"{self.upkeep_bytes}; make it larger than twice reserve_bytes plus upkeep_bytes"
            )
        if min(self.window, self.window_bytes, self.stretch_bytes, self.appenders_max) < 1:
            raise BadSetting("window, window_bytes, stretch_bytes and appenders_max must be at least 1")
        if min(self.timeout_ms, self.attempt_ms) < 1 or not self.attempt_ms <= self.append_timeout_ms <= APPEND_TIMEOUT_MS_MAX:
            raise BadSetting(
                "timeout_ms and attempt_ms must be at least 1, and append_timeout_ms between attempt_ms and "
                f"{APPEND_TIMEOUT_MS_MAX}: the servers remember the ids of commands for twice as long"
            )

    @property
    def events_limit_bytes(self) -> int:
        return self.size_bytes - self.upkeep_bytes

    @property
    def ordinary_limit_bytes(self) -> int:
        return self.events_limit_bytes - RECORD_FACTOR_MAX * self.reserve_bytes

    @property
    def stream_bytes_max(self) -> int:
        overshoot = self.window_bytes + FRAGMENTS_BYTES_MAX + 2 * COMMAND_BYTES_MAX + self.window * RECORD_OVERHEAD_BYTES_MAX
        return self.size_bytes * 5 // 4 + self.appenders_max * overshoot

    @property
    def raised_bytes_max(self) -> int:
        """How far the stream's own limit is raised for upkeep."""
        return self.stream_bytes_max + RAISES_MAX * self.upkeep_bytes

    @property
    def timeout_s(self) -> float:
        return self.timeout_ms / 1000

    @property
    def copies(self) -> int:
        """How many servers have an acknowledged command: a majority."""
        return self.replicas // 2 + 1


class Names:
    """The names of a channel's streams and subjects."""

    def __init__(self, channel: str) -> None:
        if not _NAME.match(channel):
            raise BadName(f"{channel!r} cannot name a channel; use 1 to 64 letters, digits, _ and -", name=channel)
        self.channel = channel
        self.stream = f"holdfast-channel-{channel}"
        self.subject = f"holdfast.channel.{channel}"
        self.state_stream = f"holdfast-state-{channel}"
        self.state_subject = f"holdfast.state.{channel}"

    @property
    def record_overhead_bytes(self) -> int:
        """Lengths, sequence, time and hash (34 bytes), the subject, and the headers, which are all of one length."""
        lines = "".join(f"{key}: {value}\r\n" for key, value in message_headers(self.stream, message_id("", 0), 0).items())
        return 34 + len(self.subject) + len(f"NATS/1.0\r\n{lines}\r\n")


CHECKSUM = "Holdfast-Crc"


def message_id(appender: str, token: int) -> str:
    """Return an id that no other message has, always of the same length. Repeating a message repeats its id."""
    return f"{appender:8}{token:012x}"


def message_headers(stream: str, message: str, checksum: int) -> dict[str, str]:
    return {"Nats-Expected-Stream": stream, "Nats-Msg-Id": message, CHECKSUM: f"{checksum:08x}"}


def checksum_of(data: Buffer) -> int:
    return crc32c.crc32c(data)
