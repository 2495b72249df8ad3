"""The body of an answer on its way to a client: parts put in order, and only bytes whose digest agrees.

    Held    parts of one server that wait: for the parts before them, or for the choice of an answer; bounded
    Body    bytes that the client has: how many, and their digest

Every part says the digest of the body up to its own end. A part is handed on if the client's bytes, and then those of the part,
have that digest: so the server's own beginning is the one that the client has, wherever the server cut its parts. That is how
one server goes on where another stopped (20).
"""

from __future__ import annotations

from hashlib import blake2b

from holdfast.continuity.answer import Part
from holdfast.continuity.request import DIGEST_BYTES

# Of one server, for one transaction. Parts past it are dropped, and asked for again when they are needed.
HELD_BYTES_MAX = 1 << 20
HELD_PARTS_MAX = 256


class Held:
    """Parts by the offset of their body."""

    __slots__ = ("_bytes", "_parts")

    def __init__(self) -> None:
        self._parts: dict[int, Part] = {}
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._parts)

    @property
    def bytes(self) -> int:
        return self._bytes

    def put(self, part: Part) -> None:
        """Keep a part, if there is room; one that is needed later makes room for one that is needed sooner.

        Of two with one offset the longer stays, and the last one of the body if they are alike.
        """
        known = self._parts.get(part.offset)
        if known is not None and (len(known.body), known.is_last) >= (len(part.body), part.is_last):
            return
        if known is not None:
            self._drop(part.offset)
        while self._parts and (self._bytes + len(part.body) > HELD_BYTES_MAX or len(self._parts) >= HELD_PARTS_MAX):
            furthest = max(self._parts)
            if furthest < part.offset:
                return  # a single part is held whatever its size: a frame is bounded, too
            self._drop(furthest)
        self._parts[part.offset] = part
        self._bytes += len(part.body)

    def take(self, offset: int) -> Part | None:
        """Give the part that goes on at this byte, or ends there. Parts before it are forgotten."""
        for begin in sorted(begin for begin in self._parts if begin <= offset):
            part = self._drop(begin)
            end = begin + len(part.body)
            if end > offset or (end == offset and part.is_last):
                return part
        return None

    def _drop(self, offset: int) -> Part:
        part = self._parts.pop(offset)
        self._bytes -= len(part.body)
        return part


class Body:
    """Bytes that were handed on."""

    __slots__ = ("_digest", "offset")

    def __init__(self) -> None:
        self.offset = 0
        self._digest = blake2b(digest_size=DIGEST_BYTES)

    def extend(self, part: Part, length: int) -> bytes | None:
        """Give the new bytes of a part that begins at or before `offset`; None if it does not belong to this body.

        A `length` of -1 is not known. A body that is longer, or that ends before it, does not belong. An answer of one empty
        part does: HEAD and 304 name a length and have no body.
        """
        new = part.body[self.offset - part.offset :]
        end = self.offset + len(new)
        if length >= 0 and (end > length or (part.is_last and end not in (length, 0))):
            return None
        digest = self._digest.copy()
        digest.update(new)
        if digest.digest() != part.digest:
            return None
        self._digest = digest
        self.offset = end
        return new
