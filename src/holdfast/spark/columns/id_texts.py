"""The texts of many ids at once: those of `identifier.to_text`, for rows of ids that count up.

0000K3V9X2ADMG00G00001 7F2A
└ 22 letters ─────────┘└ 4 ┘      20 bits count in the last four letters; the others are the same for a million ids in a row
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from holdfast.event.identifier import TEXT_LENGTH, to_text

_COUNTED_BITS = 20
_COUNTED_LETTERS = 4
_FRONT_LETTERS = TEXT_LENGTH - _COUNTED_LETTERS
# All pairs of letters, as they lie in memory: ten bits are looked up at a time.
_PAIRS = np.frombuffer("".join(to_text(pair)[-2:] for pair in range(1 << 10)).encode(), "<u2")


_LETTERS = np.dtype([("front", f"V{_FRONT_LETTERS}"), ("pair", "<u2"), ("last_pair", "<u2")])


def id_texts(runs: Iterable[tuple[int, int]]) -> pa.StringArray:
    """Write all ids of runs as texts; a run is its first id, and how many follow each other."""
    cut = [piece for first, count in runs for piece in _within_counted(first, count)]
    counts = np.array([count for _, count in cut], np.int64)
    numbers = _counted([first for first, _ in cut], counts)
    fronts = np.frombuffer(b"".join([_front(first >> _COUNTED_BITS) for first, _ in cut]), f"V{_FRONT_LETTERS}")
    letters = np.empty(len(numbers), _LETTERS)
    letters["front"] = np.repeat(fronts, counts)
    letters["pair"] = _PAIRS[numbers >> 10]
    letters["last_pair"] = _PAIRS[numbers & 1023]
    offsets = np.arange(0, (len(numbers) + 1) * TEXT_LENGTH, TEXT_LENGTH, dtype=np.int32)
    return pa.StringArray.from_buffers(len(numbers), pa.py_buffer(offsets), pa.py_buffer(letters.view(np.uint8)))


def _within_counted(first: int, count: int) -> Iterable[tuple[int, int]]:
    """Divide runs into pieces within which only the last letters differ."""
    while count:
        piece = min(count, (1 << _COUNTED_BITS) - first % (1 << _COUNTED_BITS))
        yield first, piece
        first, count = first + piece, count - piece


@lru_cache(maxsize=1024)
def _front(leading: int) -> bytes:
    return to_text(leading << _COUNTED_BITS)[:_FRONT_LETTERS].encode()


def _counted(firsts: list[int], counts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The bits that count, of every id."""
    mask = (1 << _COUNTED_BITS) - 1
    begins = np.array([first & mask for first in firsts], np.int64) - (np.cumsum(counts) - counts)
    return np.repeat(begins, counts) + np.arange(int(counts.sum()))
