"""The forwarder: sends the events of a recorder, once, or from a thread of its own while the recorder is open.

    recorder ─▶ read a stretch ─▶ send, as far as the window goes ─▶ receipted ─▶ released

An event is released here only after the other side has it on disk, and an event that is sent again is dropped there by its
sequence (rule 6). So each event arrives once and in order, even if one side dies at any moment.

A server that was restored from a backup has lost what it accepted since. Its greeting tells, and what is still on disk here is
sent again. If some of what it lost is not here any more, that is said: a warning in the log, and `Forwarded.missing`.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import TYPE_CHECKING

import msgspec

from holdfast.client.connection.connection import ANSWER_S, TIMEOUT_S, open_forwarding
from holdfast.client.sending.batch_forwarder import BatchForwarder, ReadyCommand
from holdfast.client.url import without_password
from holdfast.errors import Damaged, HoldfastError, Refused, TimedOut

if TYPE_CHECKING:
    from holdfast.recorder.recorder import Recorder

# The log lines of the forwarder must not be recorded and forwarded in turn: the logging handler leaves out all loggers below
# "holdfast".
log = logging.getLogger("holdfast.recorder")

BACK_OFF_MIN_S = 0.1
BACK_OFF_MAX_S = 5.0
# The forwarder waits so long for a first link before it reports that there is none, and tries again.
OPEN_TIMEOUT_S = 10.0


class Forwarded(msgspec.Struct, frozen=True):
    """`count` events were sent and are durable there; `skipped` events had arrived before.

    `missing` events had arrived, were lost when the server was restored from a backup, and are not held any more.
    """

    count: int
    skipped: int
    missing: int = 0


class _Progress:
    """How far the events of a recorder were sent over one connection."""

    def __init__(self, recorder: Recorder, forwarding: BatchForwarder) -> None:
        self.recorder = recorder
        self.forwarding = forwarding
        self.first = forwarding.receipted_through + 1
        self._next = self.first
        if forwarding.last_sequence > recorder.last:
            raise Damaged(
                f"the server has {forwarding.last_sequence} events of this recorder, which itself has only {recorder.last}: "
                "its folder is an old copy, and new events would be taken for old ones; record into a new folder",
                last_sequence=forwarding.last_sequence,
            )
        if forwarding.missing:
            log.warning(
                "the server was restored from a backup and has lost %d events of recorder %s that are not held any more; all "
                "that is held is sent again",
                forwarding.missing,
                recorder.producer,
            )
        self.release()

    def release(self) -> None:
        self.recorder.release(self.forwarding.receipted_through, self.forwarding.incarnation)

    async def send(self, through: int) -> None:
        """Send everything up to this sequence, and wait for the receipts. Receipted events are released, even after an error."""
        try:
            while self._next <= through:
                await self._send_stretch(through)
                self.release()
            while (sure := self.forwarding.receipted_through) < through:
                await self.forwarding.receipted_beyond(sure)
                self.release()
        except Refused as problem:
            sequence = self.forwarding.receipted_through + 1
            raise type(problem)(
                f"event {sequence} of the recorder was refused: {problem}. It and all after it are kept; solve this, try again",
                **{**problem.fields, "sequence": sequence},
            ) from problem
        finally:
            self.release()

    async def _send_stretch(self, through: int) -> None:
        found = self.recorder.read(self._next, through)
        assert found, "an event without a receipt is still held"
        for each in found:
            await self.forwarding.send(ReadyCommand(each.sequence, each.kind, each.command))
            self._next = each.sequence + 1


async def _forward_once(recorder: Recorder, url: str, timeout: float, answer_s: float) -> Forwarded:
    first, through = recorder.next_to_forward, recorder.last
    missing = 0
    deadline = asyncio.get_running_loop().time() + timeout
    try:
        async with (
            open_forwarding(url, recorder.producer, recorder.held_for, timeout, "recorder", answer_s) as forwarding,
            asyncio.timeout_at(deadline),
        ):
            first, missing = recorder.next_to_forward, forwarding.missing
            skipped = min(max(forwarding.last_sequence - first + 1, 0), through - first + 1)
            await _Progress(recorder, forwarding).send(through)
    except TimeoutError as problem:
        done = recorder.next_to_forward - first
        raise TimedOut(
            f"{done} of {through - first + 1} events were forwarded within {timeout:g} s; the rest is kept: forward again",
            forwarded=done,
        ) from problem
    return Forwarded(through - first + 1 - skipped, skipped, missing)


def forward(recorder: Recorder, url: str, timeout: float | None) -> Forwarded:
    """Send what the recorder holds now. Do not call it in a running loop, which it would stop meanwhile."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(_forward_once(recorder, url, timeout or TIMEOUT_S, timeout or ANSWER_S))
    raise Refused("forward() would stop this running loop; use asyncio.to_thread(recorder.forward, url), or start_forwarding")


class Forwarder:
    """Sends what is held and what is recorded, until it is stopped. It goes on after every failure; `problem` is the last one."""

    def __init__(self, recorder: Recorder, url: str) -> None:
        self.url = without_password(url)
        self._url = url
        self.problem: HoldfastError | None = None
        self._recorder = recorder
        self._loop = asyncio.new_event_loop()
        self._woken = asyncio.Event()
        self._stopping: asyncio.Event = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="holdfast-forwarder", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Tell it that something was recorded."""
        self._tell(self._woken)

    def stop(self, timeout: float) -> None:
        """End within the timeout; events without a receipt by then stay in the recorder."""
        self._tell(self._stopping)
        self._thread.join(timeout)

    def _tell(self, event: asyncio.Event) -> None:
        try:
            self._loop.call_soon_threadsafe(event.set)
        except RuntimeError:
            pass  # the loop has ended, and with it the forwarder

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._until_stopped())
        finally:
            self._loop.close()

    async def _until_stopped(self) -> None:
        forwarding = asyncio.create_task(self._keep_forwarding())
        stopping = asyncio.create_task(self._stopping.wait())
        await asyncio.wait({forwarding, stopping}, return_when=asyncio.FIRST_COMPLETED)
        for task in (forwarding, stopping):
            task.cancel()
        await asyncio.gather(forwarding, stopping, return_exceptions=True)

    async def _keep_forwarding(self) -> None:
        back_off_s = BACK_OFF_MIN_S
        while True:
            before = self._recorder.next_to_forward
            try:
                await self._forward_what_comes()
            except HoldfastError as problem:
                self._note(problem)
            except Exception as problem:  # a fault of ours: the forwarder must go on all the same
                self._note(Refused(f"forwarding failed: {problem!r:.200}"))
            if self._recorder.next_to_forward > before:
                back_off_s = BACK_OFF_MIN_S
            await asyncio.sleep(back_off_s)
            back_off_s = min(2 * back_off_s, BACK_OFF_MAX_S)

    async def _forward_what_comes(self) -> None:
        recorder = self._recorder
        async with open_forwarding(self._url, recorder.producer, recorder.held_for, OPEN_TIMEOUT_S, "recorder") as forwarding:
            progress = _Progress(recorder, forwarding)
            while True:
                self._woken.clear()
                await progress.send(recorder.last)
                self.problem = None
                await self._until_woken(forwarding)

    async def _until_woken(self, forwarding: BatchForwarder) -> None:
        """Wait for something to send, or for a server that needs something again."""
        waiting = [asyncio.create_task(self._woken.wait()), asyncio.create_task(forwarding.until_failed())]
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
        forwarding.check()

    def _note(self, problem: HoldfastError) -> None:
        if self.problem is None or self.problem.sentence != problem.sentence:
            log.warning("recorded events are not forwarded to %s, trying again: %s", self.url, problem)
        self.problem = problem
