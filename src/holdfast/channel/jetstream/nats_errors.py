"""Errors of NATS, translated into those of Holdfast: once, at the edge that met them."""

from __future__ import annotations

import asyncio

import nats.errors
import nats.js.errors

from holdfast.errors import (
    BadSetting,
    Blocked,
    Damaged,
    DiskFailed,
    HoldfastError,
    LinkLost,
    TimedOut,
    TooLarge,
    Unavailable,
    Unreachable,
)

# Errors that calls of nats-py raise; some of them raise the timeout of asyncio.
FOREIGN = (nats.errors.Error, asyncio.TimeoutError, OSError)

_STORE_FAILED = 10077
_STORAGE_EXCEEDED = (10023, 10028, 10047)
_MESSAGE_TOO_LARGE = 10054
_WRONG_STREAM = 10060
_NO_STREAM = 10059
# A message with the same id is being stored; its own answer will come.
IN_PROCESS = 10158

_NOT_SENT = (
    nats.errors.ConnectionClosedError,
    nats.errors.ConnectionDrainingError,
    nats.errors.ConnectionReconnectingError,
    nats.errors.OutboundBufferLimitError,
    nats.errors.NoServersError,
    nats.errors.NoRespondersError,
    nats.js.errors.NoStreamResponseError,
    OSError,
)


def translate(problem: Exception, doing: str) -> HoldfastError:
    """Return the error for a failed call that changed nothing."""
    if isinstance(problem, asyncio.TimeoutError):  # an OSError too, since Python 3.11: so before the others
        return TimedOut(f"{doing}: the cluster did not answer in time; repeat it")
    if isinstance(problem, _NOT_SENT):
        return Unreachable(
            f"{doing}: the cluster cannot be reached ({_said(problem)}); the connection is tried again by itself, repeat later"
        )
    if isinstance(problem, nats.errors.AuthorizationError | nats.errors.InvalidUserCredentialsError):
        return BadSetting(f"{doing}: the cluster refused this user ({_said(problem)}); check connect_options")
    if isinstance(problem, nats.errors.MaxPayloadError):
        return TooLarge(f"{doing}: larger than the servers' max_payload; raise it to 2MB on each of them")
    if isinstance(problem, nats.js.errors.APIError):
        return refused(problem.err_code or 0, problem.description or "", doing, code=problem.code or 0)
    return Unavailable(f"{doing}: {_said(problem)}; repeat later")


def refused(err_code: int, description: str, doing: str, code: int = 0) -> HoldfastError:
    """Return the error for a refusal of the servers."""
    facts = f"{doing}: the cluster says {description!r} ({err_code})"
    if err_code == _STORE_FAILED and "maximum bytes" not in description:
        return DiskFailed(f"{facts}; nothing was accepted; look at the servers' disks", err_code=err_code)
    if err_code == _STORE_FAILED or err_code in _STORAGE_EXCEEDED:
        return Blocked(
            f"{facts}; what was accepted is safe; it goes on when recipients confirm or space returns", err_code=err_code
        )
    if err_code == _MESSAGE_TOO_LARGE:
        return TooLarge(f"{facts}; send smaller batches", err_code=err_code)
    if err_code == _WRONG_STREAM:
        return BadSetting(f"{facts}; another stream takes this channel's subject: remove it", err_code=err_code)
    if err_code == _NO_STREAM:
        return Damaged(f"{facts}; a stream of this channel was deleted: restore it from a backup", err_code=err_code)
    if code == 503:
        return Unreachable(f"{facts}; it is choosing a leader or starting: repeat later", err_code=err_code)
    return Unavailable(f"{facts}; repeat later", err_code=err_code)


def not_answered(doing: str) -> LinkLost:
    """Return the error for a command that was sent and never acknowledged."""
    return LinkLost(
        f"{doing}: sent, but the cluster did not acknowledge it; it may have happened: repeat it with the same source and id"
    )


def not_taken(doing: str) -> Unreachable:
    """Return the error for a command that no server took until its deadline."""
    return Unreachable(f"{doing}: the cluster had no leader that could take it; nothing happened, repeat later")


def damaged_tail(stream: str, server: str, wrong: str) -> Damaged:
    return Damaged(
        f"stream {stream}, led by server {server}: {wrong}; nothing more is accepted or read here: stop that server, see which "
        "servers have the newest copy, restore it, and open the channel again",
        stream=stream,
        server=server,
    )


def missing(stream: str, entry: int) -> Damaged:
    return Damaged(
        f"stream {stream}: no copy of entry {entry} is as it was stored: it is gone although it was never released, or its "
        "checksum is wrong; nothing was skipped: do not release or purge anything, and compare the copies of the servers",
        stream=stream,
        entry=entry,
    )


def _said(problem: Exception) -> str:
    return str(problem) or type(problem).__name__
