"""Sizes: how many bytes the batches of one backlog are, for destinations whose high water is set in bytes, and for no others.

    slot      0     1     2     3   …          as in `slots`
    bytes   512     0   640   640              0: finished, or placed before sizes were kept

Four bytes a batch, in stretches of some thousand slots; a stretch of which nothing waits is forgotten. A batch counts whole as
long as one of its events waits: its bytes are kept that long.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator

SLOT_BITS = 12
SLOTS = 1 << SLOT_BITS
_NOTHING = array("I", bytes(4 * SLOTS))


class Sizes:
    __slots__ = ("_alive", "_stretches", "total")

    def __init__(self) -> None:
        self.total = 0
        self._stretches: dict[int, array[int]] = {}
        self._alive: dict[int, int] = {}  # the bytes that wait in each stretch

    def put(self, slot: int, size: int) -> None:
        """The batch in this slot has so many bytes."""
        number = slot >> SLOT_BITS
        stretch = self._stretches.get(number)
        if stretch is None:
            stretch = self._stretches[number] = array("I", _NOTHING)
            self._alive[number] = 0
        stretch[slot & SLOTS - 1] = size
        self._alive[number] += size
        self.total += size

    def finish(self, slot: int) -> None:
        """Nothing of the batch in this slot waits any more."""
        number = slot >> SLOT_BITS
        stretch = self._stretches.get(number)
        if stretch is None:
            return
        size = stretch[slot & SLOTS - 1]
        stretch[slot & SLOTS - 1] = 0
        self.total -= size
        self._alive[number] -= size
        if not self._alive[number]:
            del self._stretches[number], self._alive[number]

    def copy(self) -> Sizes:
        made = Sizes()
        for number, stretch in self._stretches.items():
            made.rebuild(number, stretch.tobytes())
        return made

    # --- as a whole --------------------------------------------------------------------------------------------------

    def stretches(self) -> Iterator[tuple[int, bytes]]:
        """Each stretch in which something waits, by its number, as bytes; ascending."""
        for number in sorted(self._stretches):
            yield number, self._stretches[number].tobytes()

    def rebuild(self, number: int, sizes: bytes) -> None:
        stretch = array("I", sizes)
        self._stretches[number] = stretch
        self._alive[number] = sum(stretch)
        self.total += self._alive[number]
