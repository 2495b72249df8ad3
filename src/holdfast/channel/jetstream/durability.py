"""Durability: refuse servers that acknowledge before they have synced.

By default JetStream syncs its files every two minutes and acknowledges long before: a power cut at all servers then loses
accepted commands. Only `sync_interval: always` keeps our promise. The connection of a client cannot see that setting. The
requests that show it (`$SYS…`) need the system account, which applications should not have. So it is read from the monitoring
address of each server (`/varz`, member `jetstream.config.sync_always`) when a channel is opened. Every server that holds a copy
of the stream must be checked. A server that is restarted later with another setting is noticed when the next channel is opened.
"""

from __future__ import annotations

import asyncio
import urllib.request
from collections.abc import Iterable

import msgspec

from holdfast.errors import BadSetting, Unreachable

ANSWER_BYTES_MAX = 1 << 20


class _Configuration(msgspec.Struct):
    sync_always: bool = False


class _JetStream(msgspec.Struct):
    config: _Configuration | None = None


class _Varz(msgspec.Struct):
    server_name: str = ""
    jetstream: _JetStream = msgspec.field(default_factory=_JetStream)


async def check_sync(monitors: Iterable[str], timeout_s: float) -> frozenset[str]:
    """Return the names of the servers at these addresses. BadSetting unless all of them sync before they acknowledge."""
    answers = [await asyncio.to_thread(_ask, monitor, timeout_s) for monitor in monitors]
    return frozenset(_checked(monitor, answer) for monitor, answer in zip(monitors, answers, strict=True))


def _ask(monitor: str, timeout_s: float) -> bytes:
    if not monitor.startswith(("http://", "https://")):
        raise BadSetting(f"monitor {monitor!r} is not an http:// address; name the server's monitoring port, usually 8222")
    try:
        with urllib.request.urlopen(f"{monitor.rstrip('/')}/varz", timeout=timeout_s) as answer:
            return bytes(answer.read(ANSWER_BYTES_MAX))
    except (OSError, ValueError) as problem:
        raise Unreachable(
            f"the monitoring address {monitor} does not answer ({problem}); it is needed to see that the server syncs: start it "
            "with `http_port`",
            monitor=monitor,
        ) from problem


def _checked(monitor: str, answer: bytes) -> str:
    try:
        varz = msgspec.json.decode(answer, type=_Varz)
    except msgspec.DecodeError as problem:
        raise BadSetting(f"{monitor} is not the monitoring address of a NATS server ({problem})", monitor=monitor) from problem
    if varz.jetstream.config is None:
        raise BadSetting(f"server {varz.server_name!r} at {monitor} runs without JetStream; turn it on", monitor=monitor)
    if not varz.jetstream.config.sync_always:
        raise BadSetting(
            f"server {varz.server_name!r} at {monitor} acknowledges before it syncs; set `sync_interval: always` in its "
            "jetstream block and restart it",
            monitor=monitor,
        )
    return varz.server_name


def check_copies(holders: Iterable[str], checked: frozenset[str], stream: str) -> None:
    """Raise BadSetting when a server that holds a copy was not checked."""
    unseen = sorted(set(holders) - checked)
    if unseen:
        raise BadSetting(
            f"stream {stream} has copies on {', '.join(unseen)}, whose settings were not checked; add their monitoring addresses "
            "to `monitors`",
            stream=stream,
        )
