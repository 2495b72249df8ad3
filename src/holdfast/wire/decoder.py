"""Bytes in, frames out, however the bytes were cut on the way. No I/O.

    fed whole       the frame is read where it lies; its body is a view of the bytes that came
    fed in pieces   the pieces are kept as they came, and joined when the last is there: one copy

A frame that says it is too long is refused from its first four bytes, so that nobody can make us gather what we would refuse.
Memory grows with what came, not with what was promised.
"""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.wire.frame import FRAME_BYTES_MAX, LENGTH, Frame, check_length, decode

_LENGTH_BYTES = LENGTH.size
# A piece costs memory beside its bytes: whoever sends them one by one has them joined now and then.
_PIECES_MAX = 64


class FrameDecoder:
    """Decodes the bytes of one direction of one link. After an error it is of no further use: the place of the next frame is
    lost."""

    def __init__(self, frame_bytes_max: int = FRAME_BYTES_MAX) -> None:
        self.frame_bytes_max = frame_bytes_max
        self._pieces: list[memoryview] = []
        self._gathered = 0  # bytes of them
        self._wanted = 0  # bytes of the frame that is being gathered, its length included; 0 while the length is not known

    @property
    def is_between_frames(self) -> bool:
        """Nothing of an unfinished frame has come: a link that ends here ends in good order."""
        return not self._gathered

    def feed(self, data: bytes) -> Iterator[Frame]:
        """The frames that these bytes complete, in order. To be run to its end.

        Raises TooLarge or ProtocolError at the frame that is wrong, after the ones before it were handed out.
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
        """Take what the unfinished frame still lacks; how many bytes that was."""
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
