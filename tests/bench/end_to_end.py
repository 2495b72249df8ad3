"""One run of measure d: a sender and a recipient, each a process of its own, as programs that use a broker are.

    sender      connects, meets the recipient, sends each event when it is due
    recipient   connects, meets the sender, receives and confirms; tells how long each event was under way

Within one process they would share an interpreter, and what is measured would be how they take turns in it. An event says when it
was due by the machine's monotonic clock, which all processes share.
"""

from __future__ import annotations

import multiprocessing
import struct
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier

from tests.bench.child import START_SECONDS, STOP_SECONDS
from tests.bench.peer import WAIT_SECONDS, Client
from tests.bench.workshop import EVENT_BYTES

_DUE = struct.Struct("<Q")
_PADDING = bytes(EVENT_BYTES - _DUE.size)
# Between the meeting and the first event: the recipient asks for events meanwhile.
LEAD_NS = 50_000_000


@dataclass(frozen=True)
class Run:
    """What both ends are told. It travels to them, so `connect` must be something that can be pickled."""

    connect: Callable[[], Client]
    rate: float
    count: int

    def latencies_ms(self) -> list[float]:
        """Of each event, in the order they were received."""
        context = multiprocessing.get_context("spawn")
        meeting, ends = context.Barrier(2), []
        try:
            for work in (_send, _receive):
                ours, theirs = context.Pipe(duplex=False)
                process = context.Process(target=_tell, args=(theirs, work, self, meeting), daemon=True)
                process.start()
                theirs.close()  # so that the end of the process is heard
                ends.append((process, ours))
            reports = [_heard(told) for _, told in ends]  # both: the one that failed first may not be the one that says why
        finally:
            for process, told in ends:
                process.join(STOP_SECONDS)
                process.kill()
                told.close()
        if problems := [report.problem for report in reports if report.problem]:
            raise RuntimeError("sender or recipient failed:\n" + "\n".join(problems))
        return [taken for report in reports for taken in report.taken_ms]


@dataclass(frozen=True)
class Report:
    """How an end's work ended: only the recipient has times to tell."""

    taken_ms: Sequence[float] = ()
    problem: str = ""


Work = Callable[[Run, Barrier], Sequence[float]]


def _heard(told: Connection) -> Report:
    try:
        heard = told.recv() if told.poll(START_SECONDS + WAIT_SECONDS) else Report(problem="nothing was heard of it in time")
    except EOFError:
        return Report(problem="its process ended without a word")
    assert isinstance(heard, Report)
    return heard


def _tell(told: Connection, work: Work, run: Run, meeting: Barrier) -> None:
    """What a process does: its work, and to tell how that ended."""
    try:
        told.send(Report(work(run, meeting)))
    except Exception:
        meeting.abort()  # the other need not wait
        told.send(Report(problem=traceback.format_exc()))


def _send(run: Run, meeting: Barrier) -> Sequence[float]:
    client = run.connect()
    meeting.wait(START_SECONDS)
    client.send_one_by_one(_due(run.rate, run.count))
    client.close()
    return ()


def _receive(run: Run, meeting: Barrier) -> Sequence[float]:
    taken: list[float] = []

    def seen(body: bytes) -> None:
        taken.append((time.monotonic_ns() - _DUE.unpack_from(body)[0]) / 1e6)

    client = run.connect()
    meeting.wait(START_SECONDS)
    client.receive_and_confirm(run.count, seen)
    client.close()
    return taken


def _due(rate: float, count: int) -> Iterator[bytes]:
    """Bodies that say when they were due, each handed out no earlier than that.

    It sleeps in the sender's only thread, loop or not: nothing else is under way there, and the timers of loops are coarser.
    """
    begun = time.monotonic_ns() + LEAD_NS
    for number in range(count):
        due = begun + round(number / rate * 1e9)
        ahead = (due - time.monotonic_ns()) / 1e9
        if ahead > 0:
            time.sleep(ahead)
        yield _DUE.pack(due) + _PADDING
