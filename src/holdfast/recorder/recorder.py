"""The Recorder: an event is on disk when `record` returns, whether or not a server, a network or a loop exists.

    record ─▶ journal of its own (all space written beforehand) ─▶ durable, on return
                     │
                     └─▶ forward, start_forwarding ─▶ any URL ─▶ receipted there ─▶ space free again

It is for times when no server can be reached: while a machine starts, while the server is away, while the disk is full. Its
events are forwarded in order and count once, even if one side crashes (A6, rule 6).

Threads may share a recorder. Those that record at the same moment share one sync: the first to get the journal writes the events
of all.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Unpack

import msgspec

from holdfast.channel.journal.run import Draft, Outcome
from holdfast.client.receipt import naming
from holdfast.client.sending.batch_forwarder import Held
from holdfast.client.sending.outgoing import EventFields, Outgoing, prepare
from holdfast.destination import name
from holdfast.errors import BadEvent, Blocked, Closed, HoldfastError, OutcomeUnknown, Refused
from holdfast.event import batch, identifier
from holdfast.recorder.recorder_contents import SIZE_BYTES_DEFAULT, Kind, RecordedCommand, RecorderContents

if TYPE_CHECKING:
    from holdfast.recorder.forwarder import Forwarded, Forwarder

SOURCE_DEFAULT = "holdfast/recorder"
# Records and bytes that are read at once to be forwarded: recording threads wait only shortly, and memory stays small.
READ_RECORDS_MAX = 256
READ_BYTES_MAX = 1 << 20


class Recorded(msgspec.Struct, frozen=True):
    """The event is durable here. `sequence` counts all events of this recorder, from 1."""

    sequence: int
    identifier: int | str

    @property
    def id(self) -> str:
        """The id of the event: the one it was recorded with, or a new one."""
        return self.identifier if isinstance(self.identifier, str) else identifier.to_text(self.identifier)

    def __repr__(self) -> str:
        return f"Recorded(number {self.sequence}, id={self.id!r})"


class _Noted:
    """An event that waits to be written by the thread that has the journal."""

    __slots__ = ("draft", "outcome")

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self.outcome: Outcome = 0  # its sequence once it is durable


class Recorder:
    def __init__(self, folder: str | Path, size_bytes: int = SIZE_BYTES_DEFAULT, source: str = SOURCE_DEFAULT) -> None:
        """Open or create the recorder of a folder. `source` is that of events which name none.

        An event may have up to an eighth of `size_bytes`.
        """
        self._contents: RecorderContents | None = RecorderContents.open(folder, size_bytes)
        self._folder = str(folder)
        self._source = source
        self._owner = os.getpid()
        self._noted_lock = threading.Lock()  # guards the list of what waits, and the ids
        self._contents_lock = threading.RLock()  # guards the contents
        self._noted: list[_Noted] = []
        self._forwarder: Forwarder | None = None

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    # --- recording ---------------------------------------------------------------------------------------------------

    def record(self, data: Any, destination: str, kind: Kind = "queue", **fields: Unpack[EventFields]) -> Recorded:
        """Record data, or an Event, for a destination. It is on disk when this returns.

        Blocked: there is no room. BadEvent, BadName, TooLarge: it could never be sent. In all these cases nothing was recorded.
        """
        name.check_destination(destination)
        if kind not in ("queue", "topic"):
            raise BadEvent(f"a destination is a queue or a topic, not {kind!r}", kind=str(kind))
        event = prepare(data, fields)
        contents = self._opened()
        with self._noted_lock:
            first_id = contents.take_id()
            noted = _Noted(contents.draft(kind, destination, self._batch(event, first_id)))
            self._noted.append(noted)
        with self._contents_lock:
            if noted.outcome == 0:
                self._write()
        if isinstance(noted.outcome, OutcomeUnknown):
            raise naming(noted.outcome, (Recorded(0, event.id or first_id).id,))
        if isinstance(noted.outcome, HoldfastError):
            raise noted.outcome
        if self._forwarder is not None:
            self._forwarder.wake()
        return Recorded(noted.outcome, event.id or first_id)

    def _batch(self, event: Outgoing, first_id: int) -> bytes:
        return batch.encode(
            (event.head,), (event.body,), source=self._source, first_id=first_id, priority=event.priority,
            not_before_ms=event.not_before_ms,
            earliest_expiry_ms=event.expires_at_ms, latest_expiry_ms=event.expires_at_ms, has_groups=event.has_group,
        )  # fmt: skip

    def _write(self) -> None:
        """Write the noted events of all threads, with one sync. An event that does not fit is refused; the others are durable."""
        with self._noted_lock:
            noted, self._noted = self._noted, []
        try:
            outcomes = self._opened().write([each.draft for each in noted])
        except BaseException as problem:
            outcomes = [
                problem if isinstance(problem, HoldfastError) else OutcomeUnknown(f"recording was interrupted: {problem!r}")
            ] * len(noted)
            raise
        finally:
            for each, outcome in zip(noted, outcomes, strict=True):
                each.outcome = self._explained(outcome) if isinstance(outcome, Blocked) else outcome

    def _explained(self, problem: Blocked) -> Blocked:
        return Blocked(
            f"recorder {self._folder} is full and this event was not recorded; its {self.held} events are safe, and there is "
            "room again when they are forwarded",
            held=self.held,
        )

    # --- what it holds -----------------------------------------------------------------------------------------------

    @property
    def held(self) -> int:
        """The number of events that are recorded and not known to be durable elsewhere."""
        contents = self._opened()
        return contents.last + 1 - contents.first

    @property
    def free_bytes(self) -> int:
        """Bytes that can still be recorded, heads included, before it is full."""
        return self._opened().free_bytes

    @property
    def next_to_forward(self) -> int:
        """The sequence of the oldest record that is not known to be durable elsewhere."""
        return self._opened().first

    @property
    def producer(self) -> str:
        """The name under which its events are sent."""
        return self._opened().producer

    @property
    def last(self) -> int:
        """The sequence of the newest record; 0 before the first."""
        return self._opened().last

    def read(self, start: int, through: int) -> list[RecordedCommand]:
        """Return ready commands from sequence `start` on, not past `through`, as many as are convenient at once."""
        found: list[RecordedCommand] = []
        size = 0
        with self._contents_lock:
            for each in self._opened().commands(start):
                if each.sequence > through or len(found) >= READ_RECORDS_MAX or size >= READ_BYTES_MAX:
                    break
                found.append(each)
                size += len(each.command)
        return found

    def held_for(self, incarnation: str) -> Held:
        """Return what to forward to a server; more than is held otherwise, if it was restored from a backup."""
        with self._contents_lock:
            return self._opened().held_for(incarnation)

    def release(self, through: int, incarnation: str = "") -> None:
        """Free the space of events up to this sequence: they are durable elsewhere, in the channel with this incarnation."""
        with self._contents_lock:
            self._opened().release(through, incarnation)

    # --- forwarding --------------------------------------------------------------------------------------------------

    def forward(self, url: str, timeout: float | None = None) -> Forwarded:
        """Send what is held now, in order, and wait until it is durable there. Unsent events stay, and can be sent later."""
        from holdfast.recorder.forwarder import forward

        return forward(self, url, timeout)

    def start_forwarding(self, url: str) -> Forwarder:
        """Send what is held, and from now on what is recorded, from a thread of its own, while the recorder is open."""
        from holdfast.client.url import parse
        from holdfast.recorder.forwarder import Forwarder

        self._opened()
        parse(url)
        if self._forwarder is not None:
            raise Refused(f"recorder {self._folder} is already forwarded to {self._forwarder.url}; stop that first")
        self._forwarder = Forwarder(self, url)
        return self._forwarder

    def stop_forwarding(self, timeout: float = 5.0) -> None:
        """End the forwarder; unsent events stay here."""
        forwarder, self._forwarder = self._forwarder, None
        if forwarder is not None:
            forwarder.stop(timeout)

    def close(self) -> None:
        self.stop_forwarding()
        with self._contents_lock:
            contents, self._contents = self._contents, None
            if contents is not None and os.getpid() == self._owner:
                contents.close()

    def _opened(self) -> RecorderContents:
        contents = self._contents
        if contents is None:
            raise Closed(f"recorder {self._folder} was closed; open it again")
        if os.getpid() != self._owner:
            raise Refused(
                f"recorder {self._folder} belongs to process {self._owner}; after a fork, open one of your own in another folder"
            )
        return contents
