"""Connecting to NATS for the first time: to any of the servers, or with a sentence that says why not.

    connected                                  go on, and connect again for ever
    every server refused the login, or TLS     BadSetting, at once: trying again changes nothing
    no server answered in time                 Unreachable, with what was met last

nats-py itself tries for ever, and tells what it meets by a callback. No sentence has a password: those of the servers do not.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

import nats.errors
from nats.aio.client import Client

from holdfast.errors import BadSetting, HoldfastError, Unreachable

log = logging.getLogger("holdfast.bus")

Result = TypeVar("Result")

# Errors that calls of nats-py raise; some of them raise the timeout of asyncio.
FOREIGN = (nats.errors.Error, asyncio.TimeoutError, OSError)
_REFUSED = ("authorization violation", "authentication", "invalid user credentials")


class _Meeting:
    """What was met while connecting."""

    def __init__(self, servers: int) -> None:
        self.last: Exception | None = None
        self.is_final = asyncio.Event()
        self._left = servers
        self._is_over = False

    async def note(self, problem: Exception) -> None:
        if self._is_over:
            log.warning("cluster connection: %s", said(problem))
            return
        log.debug("connecting: %s", said(problem))
        if _is_final(problem) or not _is_final(self.last):
            self.last = problem
        if _is_final(problem):
            self._left -= 1
            if self._left <= 0:
                self.is_final.set()

    def end(self) -> None:
        """Connected: what is met from now on is for the log."""
        self._is_over = True


async def connect(servers: Sequence[str], timeout_s: float, options: dict[str, Any]) -> Client:
    """A client of nats-py that is connected to one of the servers."""
    client, meeting, where = Client(), _Meeting(len(servers)), ", ".join(servers)
    work = asyncio.create_task(client.connect(list(servers), **{"error_cb": meeting.note, **options}))
    final = asyncio.create_task(meeting.is_final.wait())
    try:
        await asyncio.wait({work, final}, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            raise _sentence(meeting.last, where) from meeting.last
        try:
            work.result()
        except FOREIGN as problem:
            raise _sentence(problem, where) from problem
        if "tls" in options and not client._server_info.get("tls_required"):  # nats-py goes on without
            raise BadSetting(f"a server of the cluster at {where} does not speak TLS; turn it on there, or leave out `ca`")
    except BaseException:
        work.cancel()
        with contextlib.suppress(*FOREIGN):
            await within(timeout_s, client.close())
        raise
    finally:
        final.cancel()
    meeting.end()
    return client


def _sentence(problem: Exception | None, where: str) -> HoldfastError:
    if isinstance(problem, ssl.SSLCertVerificationError):
        return BadSetting(
            f"the certificate of the cluster at {where} is not to be believed ({problem.verify_message}); check `ca` in "
            "[nats_login], and the names in the certificate"
        )
    if isinstance(problem, ssl.SSLError):
        return BadSetting(f"TLS with the cluster at {where} fails ({problem.reason}); check the files in [nats_login]")
    if problem is not None and _is_refusal(problem):
        return BadSetting(
            f"the cluster at {where} refused this login ({said(problem)}); check the user and the secret in [nats_login]"
        )
    told = said(problem) if problem is not None else "no answer"
    return Unreachable(f"no server of the cluster at {where} can be reached ({told}); repeat later")


def _is_final(problem: Exception | None) -> bool:
    """Whether trying again changes nothing."""
    return problem is not None and (isinstance(problem, ssl.SSLError) or _is_refusal(problem))


def _is_refusal(problem: Exception) -> bool:
    """Whether a server refused the login. nats-py tells it by the text alone."""
    return isinstance(problem, nats.errors.Error) and any(each in str(problem).lower() for each in _REFUSED)


async def within(timeout_s: float, work: Coroutine[Any, Any, Result]) -> Result:
    """What a call of nats-py returns within a time; TimeoutError after it. Some of its calls go on although they are cancelled:
    so this one does not wait for them to end."""
    task = asyncio.create_task(work)
    try:
        done, _ = await asyncio.wait({task}, timeout=timeout_s)
    except asyncio.CancelledError:
        task.cancel()
        raise
    if not done:
        task.cancel()
        await asyncio.wait({task}, timeout=timeout_s)
        raise TimeoutError(f"no answer within {timeout_s} s")
    return task.result()


def said(problem: Exception) -> str:
    return str(problem) or type(problem).__name__
