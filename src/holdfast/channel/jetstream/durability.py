"""Refuses servers that acknowledge before they have synced.

JetStream by default syncs its files every two minutes and acknowledges long before: a power cut at all servers then loses what
was accepted. Only `sync_interval: always` keeps our promise. A client's connection cannot see that setting, and the requests that
show it (`$SYS…`) need the system account, which applications should not have; so it is read from each server's monitoring address
(`/varz`, member `jetstream.config.sync_always`) when a channel is opened. Every server that holds a copy of the stream must be
among those looked at. A server restarted later with another setting is noticed when the next channel is opened.
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
    """The names of the servers behind these addresses, all of which sync before they acknowledge; otherwise BadSetting."""
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
    """BadSetting when a server that holds a copy was not looked at."""
    unseen = sorted(set(holders) - checked)
    if unseen:
        raise BadSetting(
            f"stream {stream} has copies on {', '.join(unseen)}, whose settings were not checked; add their monitoring addresses "
            "to `monitors`",
            stream=stream,
        )
