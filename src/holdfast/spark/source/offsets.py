"""Offsets: how far Spark has read each destination, as it writes them into its checkpoint.

    {"alerts.*": ["7c1e:48", 196608, [65536, 131072]], "orders": ["7c1e:51", 65536]}
       |            |         |      |
       |            |         |      cuts: where the batch that ends here is divided for the executors; left out if there are none
       |            |         place: everything of the subscription before it belongs to this batch or an earlier one
       |            identity of the subscription: one that was deleted and made again is another one, and so is one of a server
       |            that was restored from a backup (the part before the colon is the incarnation of its channel)
       as the option `destinations` names it; with the message manager, `alerts.*@m2`, where there are several (ADR 22)

Spark compares offsets as text, so there is one way to write each: names in alphabetical order, no empty list of cuts. The
latest offset in a query's progress has the lag in place of the cuts: how many events are not confirmed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

from holdfast.client.reading.place_reader import Extent
from holdfast.errors import CheckpointMismatch
from holdfast.event.incarnation import is_restored

# The server is asked for so many pieces; fewer are made of them where a batch is small.
PIECES_MAX = 64
# A task costs some ten milliseconds beside its work: below this, a piece is not worth one.
PIECE_EVENTS_MIN = 10_000
# Above these a piece is long enough that losing it to a killed executor hurts.
PIECE_EVENTS_MAX = 250_000
PIECE_BYTES_MAX = 64 << 20


class Mark(NamedTuple):
    """A place in one subscription, and how what lies before it was divided."""

    identity: str
    place: int
    cuts: tuple[int, ...] = ()

    def written(self) -> list[Any]:
        return [self.identity, self.place, *([list(self.cuts)] if self.cuts else [])]


Marks = dict[str, Mark]


class Range(NamedTuple):
    """A part of a batch: the events of one subscription from one place up to another; the places are of one incarnation."""

    destination: str
    start: int
    end: int
    incarnation: str = ""


def written(marks: Mapping[str, Mark]) -> dict[str, Any]:
    """As Spark is told: the same marks give the same text."""
    return {name: marks[name].written() for name in sorted(marks)}


def read(offset: Mapping[str, Any]) -> Marks:
    """CheckpointMismatch for what was written by something else."""
    try:
        return {name: _mark(*value) for name, value in offset.items()}
    except (TypeError, ValueError, AttributeError):
        raise CheckpointMismatch(
            f"the checkpoint holds an offset that is not one of this source: {json.dumps(offset)[:200]}; give the query a "
            "checkpoint folder of its own",
        ) from None


def _mark(identity: object, place: object, cuts: Iterable[object] = ()) -> Mark:
    if not isinstance(identity, str):
        raise TypeError
    return Mark(identity, _whole(place), tuple(_whole(cut) for cut in cuts))


def _whole(number: object) -> int:
    if type(number) is not int or number < 0:
        raise TypeError
    return number


def ranges(start: Marks, end: Marks) -> list[Range]:
    """Divide a batch into ranges, one for each task. A destination that is new at `end` begins there and has none."""
    return [each for name in sorted(end) if name in start for each in _divided(name, start[name], end[name])]


def _divided(name: str, start: Mark, end: Mark) -> list[Range]:
    """A mark of another subscription says nothing of this one: all that waits in it is read."""
    begin = start.place if start.identity == end.identity else 0
    places = [begin, *(cut for cut in end.cuts if begin < cut < end.place), end.place]
    return [Range(name, low, high, incarnation_of(end.identity)) for low, high in pairwise(places) if low < high]


def incarnation_of(identity: str) -> str:
    """The incarnation of the channel in which a subscription with this identity is."""
    return identity.rpartition(":")[0]


def is_of_restored(known: str, found: str) -> bool:
    """Tell whether the subscription that was known by one identity has another because its server was restored from a backup."""
    return is_restored(incarnation_of(known), incarnation_of(found))


def thinned(cuts: list[int], pieces: int) -> tuple[int, ...]:
    """Choose some of these cuts, so that they make fewer pieces of about the same size."""
    have = len(cuts) + 1
    wanted = max(1, min(pieces, have))
    return tuple(cuts[have * number // wanted - 1] for number in range(1, wanted))


def pieces_of(extent: Extent, at_least: int) -> int:
    """As many as this machine has cores, if that is worth it; of a large batch a multiple of it; at least what was asked for."""
    cores = max(1, min(os.cpu_count() or 1, extent.events // PIECE_EVENTS_MIN))
    for_size = max(-(-extent.events // PIECE_EVENTS_MAX), -(-extent.bytes // PIECE_BYTES_MAX))
    return max(at_least, -(-for_size // cores) * cores)
