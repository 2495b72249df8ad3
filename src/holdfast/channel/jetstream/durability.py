"""Durability: refuse servers that acknowledge before they have synced, or that take only small messages.

By default JetStream syncs its files every two minutes and acknowledges long before: a power cut at all servers then loses
accepted commands. Only `sync_interval: always` keeps our promise. The connection of a client cannot see that setting. The
requests that show it (`$SYS…`) need the system account, which applications should not have. So it is read from the monitoring
address of each server (`/varz`, member `jetstream.config.sync_always`) when a channel is opened.

Every server that holds a copy of the stream must be checked. One that is down cannot be asked. So the state stream remembers, by
name, which servers were found to be right, and a channel opens with some of them down. Those are asked as soon as they are back;
if one has come back with another setting, nothing more is accepted.
"""

from __future__ import annotations

import asyncio
import ssl
import urllib.request
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from holdfast.channel.channel import COMMAND_BYTES_MAX
from holdfast.errors import BadSetting, Unreachable

ANSWER_BYTES_MAX = 1 << 20
# The headers of a message count against the servers' max_payload.
PAYLOAD_BYTES_MIN = COMMAND_BYTES_MAX + 1024
# How a server tells of a peer that it has not met since it was started.
_NAMELESS = "Server name unknown"


class _Configuration(msgspec.Struct):
    sync_always: bool = False


class _JetStream(msgspec.Struct):
    config: _Configuration | None = None


class _Varz(msgspec.Struct):
    server_name: str = ""
    max_payload: int = 0
    jetstream: _JetStream = msgspec.field(default_factory=_JetStream)


class Checked(NamedTuple):
    """The servers that were found to be right, and the addresses that did not answer."""

    names: frozenset[str]
    silent: tuple[str, ...]
    problem: Unreachable | None = None


async def check_servers(monitors: Iterable[str], timeout_s: float, tls: ssl.SSLContext | None = None) -> Checked:
    """Ask the servers at these addresses. BadSetting when one would not keep our promises; Unreachable when none answers."""
    addresses = tuple(monitors)
    for address in addresses:
        if not address.startswith(("http://", "https://")):
            raise BadSetting(f"monitor {address!r} is not an http:// address; name the server's monitoring port, usually 8222")
    answers = await asyncio.gather(*(asyncio.to_thread(_ask, address, timeout_s, tls) for address in addresses))
    names = [
        check_answer(address, answer) for address, answer in zip(addresses, answers, strict=True) if isinstance(answer, bytes)
    ]
    problems = {address: answer for address, answer in zip(addresses, answers, strict=True) if isinstance(answer, Unreachable)}
    problem = next(iter(problems.values()), None)
    if problem is not None and not names:
        raise problem
    return Checked(frozenset(names), tuple(problems), problem)


def _ask(monitor: str, timeout_s: float, tls: ssl.SSLContext | None) -> bytes | Unreachable:
    try:
        with urllib.request.urlopen(f"{monitor.rstrip('/')}/varz", timeout=timeout_s, context=tls) as answer:
            return bytes(answer.read(ANSWER_BYTES_MAX))
    except (OSError, ValueError) as problem:
        return Unreachable(
            f"the monitoring address {monitor} does not answer ({problem}); it is needed to see that the server syncs: start it "
            "with `http_port`",
            monitor=monitor,
        )


def check_answer(monitor: str, answer: bytes) -> str:
    """Return the name of the server that gave this answer. BadSetting if it would not keep our promises."""
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
    if varz.max_payload < PAYLOAD_BYTES_MIN:
        raise BadSetting(
            f"server {varz.server_name!r} at {monitor} takes messages of {varz.max_payload} bytes, but commands have up to "
            f"{PAYLOAD_BYTES_MIN}; set `max_payload: 2MB` in its configuration and restart it",
            monitor=monitor,
            max_payload=varz.max_payload,
        )
    return varz.server_name


def check_copies(holders: Iterable[str], checked: Checked, remembered: frozenset[str], stream: str) -> None:
    """Raise when a server that holds a copy was neither checked now nor before: Unreachable if it may be down."""
    named = {holder for holder in holders if not holder.startswith(_NAMELESS)}
    nameless = len(set(holders) - named)
    unseen = sorted(named - checked.names - remembered)
    if nameless > len(remembered - named):
        unseen.append("a server that is down")
    if not unseen:
        return
    if checked.problem is not None:
        raise checked.problem
    raise BadSetting(
        f"stream {stream} has copies on {', '.join(unseen)}, whose settings were not checked; add their monitoring addresses "
        "to `monitors`",
        stream=stream,
    )
