"""The decoder: bytes in, frames out, however the bytes were cut on the way. No I/O.

    fed whole       the frame is read where it lies; its body is a view of the bytes that came
    fed in pieces   the pieces are kept as they came, and joined when the last is there: one copy

A frame over the limit is refused from its first four bytes, so that nobody can make us gather it. Memory grows with the bytes
that came, not with the length that was announced.
"""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.wire.frame import FRAME_BYTES_MAX, LENGTH, Frame, check_length, decode

_LENGTH_BYTES = LENGTH.size
# So many bytes of an unfinished frame are enough to tell what it is.
UNFINISHED_BYTES = 64
# A piece costs memory beside its bytes: many small pieces are joined now and then.
_PIECES_MAX = 64
_PIECE_BYTES = 256


class FrameDecoder:
    """Decodes the bytes of one direction of one link. After an error it cannot go on: the next frame is not found."""

    def __init__(self, frame_bytes_max: int = FRAME_BYTES_MAX) -> None:
        self.frame_bytes_max = frame_bytes_max
        self._pieces: list[memoryview] = []
        self._gathered = 0  # bytes of them
        self._wanted = 0  # bytes of the frame that is being gathered, its length included; 0 while the length is not known

    @property
    def is_between_frames(self) -> bool:
        """No unfinished frame is there: a link that ends here ends in good order."""
        return not self._gathered

    @property
    def unfinished(self) -> bytes:
        """The first bytes of the unfinished frame."""
        return bytes(self._pieces[0][:UNFINISHED_BYTES]) if self._pieces else b""

    @property
    def held_bytes(self) -> int:
        """The memory that an unfinished frame takes: all reads that hold a part of it."""
        return sum(memoryview(piece.obj).nbytes + _PIECE_BYTES for piece in self._pieces)

    def clear(self) -> None:
        """Forget an unfinished frame: nothing more will come."""
        self._pieces, self._gathered, self._wanted = [], 0, 0

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Yield the frames that these bytes complete, in order. Run it to its end.

        Raises TooLarge or ProtocolError at a wrong frame, after the frames before it.
        """
        at = 0
        view = memoryview(data)
        if not self._gathered and len(data) >= _LENGTH_BYTES and self._frame_bytes(view, 0) == len(data):
            yield decode(view)  # one whole frame, as lone ones come
            return
        if self._gathered:
            at = self._fill(view)
            if not self._wanted or self._gathered < self._wanted:
                return
            whole = b"".join(self._pieces)
            self._pieces, self._gathered, self._wanted = [], 0, 0
            yield decode(memoryview(whole))
        end = len(view)
        while end - at >= _LENGTH_BYTES:
            after = at + self._frame_bytes(view, at)
            if after > end:
                self._wanted = after - at
                break
            yield decode(view[at:after])
            at = after
        if at < end:
            self._keep(view[at:])

    def _fill(self, view: memoryview) -> int:
        """Take the bytes that the unfinished frame still lacks; return how many were taken."""
        taken = 0
        if not self._wanted:
            taken = _LENGTH_BYTES - self._gathered
            self._keep(view[:taken])
            if self._gathered < _LENGTH_BYTES:
                return len(view)
            self._wanted = self._frame_bytes(b"".join(self._pieces), 0)
        missing = self._wanted - self._gathered
        self._keep(view[taken : taken + missing])
        return min(taken + missing, len(view))

    def _keep(self, piece: memoryview) -> None:
        if len(self._pieces) == _PIECES_MAX:
            self._pieces = [memoryview(b"".join(self._pieces))]
        self._pieces.append(piece)
        self._gathered += len(piece)

    def _frame_bytes(self, data: memoryview | bytes, at: int) -> int:
        (length,) = LENGTH.unpack_from(data, at)
        check_length(length, self.frame_bytes_max)
        return _LENGTH_BYTES + int(length)
