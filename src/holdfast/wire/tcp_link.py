"""One connection as a link: TCP, with TLS (`tls`) or without, or a local socket (`local_socket`).

send      frames gather until the end of this turn of the loop, then go out together; a large body is not copied
receive   bytes go through `FrameDecoder`; bytes that are no frame are answered with a Goodbye, and the link ends
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator
from time import perf_counter
from typing import cast

from holdfast.errors import HoldfastError, ProtocolError
from holdfast.wire.conversation import farewell
from holdfast.wire.decoder import UNFINISHED_BYTES, FrameDecoder
from holdfast.wire.frame import FRAME_BYTES_MAX, Buffer, Frame, encode_lead
from holdfast.wire.link import report_fault, unset_lost, unset_received
from holdfast.wire.tls import TlsFilter

# With so many bytes waiting in the transport a link is congested, until so few are left.
CONGESTED_BYTES = 4 << 20
DRAINED_BYTES = 1 << 20
# Bodies from this size on are written without a copy; smaller ones are cheaper to join.
LARGE_BODY_BYTES = 16 << 10
# With more gathered bytes, a link does not wait for the end of the turn.
GATHERED_BYTES_MAX = 256 << 10
# After so many frames of one link, or so much time (some ask for much work), everyone else has a turn.
FRAMES_A_TURN = 128
TURN_S = 0.002
# What one read takes at most, in a loop of asyncio. For the 256 KiB of asyncio itself, the system hands out memory at every read,
# and takes it back: three calls and 11 µs. Less than 128 KiB is memory that the process has. (uvloop has a buffer for all reads.)
READ_BYTES_MAX = 120 << 10
# A closing link may take so long to send what waits: the other side may have stopped reading.
CLOSING_TIMEOUT_S = 5.0


class TcpLink(asyncio.Protocol):
    """One TCP connection as a `Link`."""

    def __init__(self, frame_bytes_max: int = FRAME_BYTES_MAX, tls: TlsFilter | None = None) -> None:
        self.received: Callable[[Frame], None] = self._greeted
        self.lost: Callable[[Exception | None], None] = unset_lost
        self._decoder = FrameDecoder(frame_bytes_max)
        self._tls = tls
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._peer = "nobody"
        self.address = ""  # of this end; "" for a local socket
        self._gathered: list[Buffer] = []
        self._gathered_bytes = 0
        self._is_reading = False
        self._frames: Iterator[Frame] = iter(())  # frames that came and were not handed over yet
        self._is_paused = False  # nothing more is read until they are
        self._is_congested = False
        self._is_closing = False
        self._problem: Exception | None = None
        self._heard = b""  # the first bytes that were no frame
        self._waiting_to_drain: list[asyncio.Future[None]] = []
        self._abort_timer: asyncio.TimerHandle | None = None

    # --- what a Link is ----------------------------------------------------------------------------------------------

    @property
    def peer(self) -> str:
        return self._peer

    @property
    def certificate_names(self) -> tuple[str, ...]:
        return () if self._tls is None else self._tls.certificate_names()

    @property
    def heard(self) -> bytes:
        return self._heard or self._decoder.unfinished

    @property
    def is_congested(self) -> bool:
        return self._is_congested

    @property
    def bytes_waiting(self) -> int:
        waiting = 0 if self._transport is None else self._transport.get_write_buffer_size()
        return waiting + self._gathered_bytes

    def send(self, frame: Frame) -> None:
        if self._is_closing:
            return
        session, message, body = frame
        size = len(body)
        lead = encode_lead(session, message, size)
        if not self._gathered and not self._is_reading:
            self._loop.call_soon(self.flush)
        self._gathered.append(lead)
        if size >= LARGE_BODY_BYTES:
            self.flush()
            self._write(body)
        elif size:
            self._gathered.append(body)
        self._gathered_bytes += size + len(lead)
        if self._gathered_bytes > GATHERED_BYTES_MAX:
            self.flush()

    def send_now(self, frame: Frame) -> None:
        session, message, body = frame
        if self._gathered or len(body) >= LARGE_BODY_BYTES:
            self.send(frame)
            self.flush()
        elif not self._is_closing:
            lead = encode_lead(session, message, len(body))
            self._write(b"".join((lead, body)) if body else lead)

    async def drained(self) -> None:
        while self._is_congested:
            waiting = self._loop.create_future()
            self._waiting_to_drain.append(waiting)
            await waiting

    def admit(self) -> None:
        """Do nothing: a server that we dialled has no limits to lift."""

    def close(self) -> None:
        if self._is_closing:
            return
        self.flush()
        self._is_closing = True
        if self._transport is not None:
            if self._tls is not None:
                self._transport.write(self._tls.end())
            self._transport.close()
            self._abort_timer = self._loop.call_later(CLOSING_TIMEOUT_S, self._transport.abort)

    # --- what the loop calls -----------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = cast(asyncio.Transport, transport)  # uvloop's is one in all but its class
        self._transport = transport
        transport.set_write_buffer_limits(high=CONGESTED_BYTES, low=DRAINED_BYTES)
        if hasattr(transport, "max_size"):
            transport.max_size = READ_BYTES_MAX
        made = transport.get_extra_info("socket")
        if made.family == socket.AF_UNIX:
            self._peer = "this machine, by a local socket"
            return
        self._peer, self.address = _address_text(transport, "peername"), _address_text(transport, "sockname")
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def data_received(self, data: bytes) -> None:
        try:
            if self._tls is not None:
                data = self._decrypt(self._tls, data)
            self._frames = self._decoder.feed(data)
        except HoldfastError as problem:
            self.refuse(problem)
        except Exception as problem:
            self._end_at_fault(problem)
        else:
            self._take_frames()
        if self._problem is not None:
            self._heard = self._heard or bytes(data[:UNFINISHED_BYTES])

    def _take_frames(self) -> None:
        """Hand over frames that came, so few that others have their turn soon. Nothing more is read before the rest is taken."""
        self._is_reading = True
        until_s = perf_counter() + TURN_S
        try:
            for count, frame in enumerate(self._frames, 1):
                if self._is_closing:
                    return
                self.received(frame)
                if count == FRAMES_A_TURN or perf_counter() > until_s:
                    self._take_the_rest_later()
                    return
            if self._is_paused and not self._is_closing and self._transport is not None:
                self._is_paused = False
                self._transport.resume_reading()
        except HoldfastError as problem:
            self.refuse(problem)
        except Exception as problem:
            self._end_at_fault(problem)
        finally:
            self._is_reading = False
            if self._gathered:
                self.flush()

    def _take_the_rest_later(self) -> None:
        if not self._is_paused and self._transport is not None:
            self._is_paused = True
            self._transport.pause_reading()
        self._loop.call_soon(self._take_frames)

    def _end_at_fault(self, problem: Exception) -> None:
        """End the link after a fault of ours at a frame, and log it."""
        report_fault(self._peer, problem)
        self.refuse(ProtocolError(f"a frame could not be taken ({type(problem).__name__}); the link ends, report this"))

    def _decrypt(self, tls: TlsFilter, data: bytes) -> bytes:
        """Decrypt, and send what TLS itself has to say, even after an error."""
        assert self._transport is not None
        try:
            return tls.decrypt(data)
        finally:
            if waiting := tls.waiting():
                self._transport.write(waiting)

    def refuse(self, problem: HoldfastError) -> None:
        """Say why, and end. `lost` gets the problem."""
        self.send(Frame(0, farewell(problem)))
        self._problem = problem
        self.close()

    def pause_writing(self) -> None:
        self._is_congested = True

    def resume_writing(self) -> None:
        self._is_congested = False
        for waiting in self._waiting_to_drain:
            if not waiting.done():
                waiting.set_result(None)
        self._waiting_to_drain.clear()

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_closing = True
        self._gathered.clear()
        if self._abort_timer is not None:
            self._abort_timer.cancel()
        if exc is None and self._problem is None and not self._decoder.is_between_frames:
            exc = ConnectionResetError("the link ended in the middle of a frame")
        self.resume_writing()
        try:
            self.lost(self._problem or exc)
        except Exception as problem:
            report_fault(self._peer, problem)
        self.received, self.lost = unset_received, unset_lost  # so that the link does not keep its user alive
        # Free memory now, even if somebody still has the link: otherwise it would wait for the garbage collector.
        self._decoder.clear()
        self._frames, self._tls = iter(()), None

    def _greeted(self, frame: Frame) -> None:
        raise ProtocolError("a frame came before it could be received; wait for the greeting")

    def flush(self) -> None:
        gathered = self._gathered
        if not gathered or self._is_closing:
            return
        self._gathered = []
        self._gathered_bytes = 0
        self._write(gathered[0] if len(gathered) == 1 else b"".join(gathered))

    def _write(self, data: Buffer) -> None:
        assert self._transport is not None
        if self._tls is None:
            self._transport.write(data)
        elif self._tls.is_ready:  # before that, the other side could not read it
            self._transport.write(self._tls.encrypt(data))


def _address_text(transport: asyncio.Transport, whose: str) -> str:
    name = transport.get_extra_info(whose)
    return f"{name[0]}:{name[1]}" if isinstance(name, tuple) else str(name)
