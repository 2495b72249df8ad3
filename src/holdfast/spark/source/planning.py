"""Into how many pieces a batch is cut, each read by one task."""

from __future__ import annotations

import os

from holdfast.client.reading import Extent

# The server is asked for so many pieces; fewer are made of them where a batch is small.
PIECES_MAX = 64
# A task costs some ten milliseconds beside its work: below this, a piece is not worth one.
PIECE_EVENTS_MIN = 10_000
# Above these a piece is long enough that losing it to a killed executor hurts.
PIECE_EVENTS_MAX = 250_000
PIECE_BYTES_MAX = 64 << 20


def pieces_of(extent: Extent, at_least: int) -> int:
    """As many as this machine has cores, if that is worth it; of a large batch a multiple of it; at least what was asked for."""
    cores = max(1, min(os.cpu_count() or 1, extent.events // PIECE_EVENTS_MIN))
    for_size = max(-(-extent.events // PIECE_EVENTS_MAX), -(-extent.bytes // PIECE_BYTES_MAX))
    return max(at_least, -(-for_size // cores) * cores)
