"""Events as columns: slices of batches, as they come from a server, become Arrow record batches, as Spark takes them.

    slices ─ gathered until there are about 10,000 rows ─▶ columns that were asked for ─▶ record batch

Nothing is done for each event where it can be done for many: ids are counted (`id_texts`), heads that are alike are read once
(`heads`), bodies are used as they lie (`bodies`). A column that nobody asked for is not made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.event.batch import Batch
from holdfast.spark.columns.arrays import to_numbers, to_texts
from holdfast.spark.columns.bodies import Bodies
from holdfast.spark.columns.heads import Heads, repeated, timestamps
from holdfast.spark.columns.id_texts import id_texts
from holdfast.spark.columns.schema import Layout

ROWS = 10_000  # measured in Spark: more are not faster, fewer are slower
# Far from where the offsets of Arrow end (2 GiB), and a size that a Python worker hands over at once.
BYTES_MAX = 8 << 20


class ReadSlice(Protocol):
    """Events of one batch that has no others: what `holdfast.client.reading.place_reader` hands out."""

    @property
    def first(self) -> int:
        """The position of the first one."""

    @property
    def destination(self) -> str: ...

    @property
    def accepted_us(self) -> int:
        """When it was accepted; 0 if that is not known."""

    @property
    def batch(self) -> Batch: ...


def to_record_batches(slices: Iterable[ReadSlice], layout: Layout, rows: int = ROWS) -> Iterator[pa.RecordBatch]:
    for gathered in _gathered(slices, layout, rows):
        made = gathered.record_batch()
        pieces = max(1, round(made.num_rows / rows))
        cuts = [made.num_rows * piece // pieces for piece in range(pieces + 1)]
        yield from (made.slice(begin, end - begin) for begin, end in pairwise(cuts))


def _gathered(slices: Iterable[ReadSlice], layout: Layout, rows: int) -> Iterator[Gathered]:
    waiting: list[ReadSlice] = []
    count = size = 0
    for each in slices:
        waiting.append(each)
        count += each.batch.count
        size += len(each.batch.data)
        if count >= rows or size >= BYTES_MAX:
            yield Gathered(waiting, layout)
            waiting, count, size = [], 0, 0
    if waiting:
        yield Gathered(waiting, layout)


class Gathered:
    """Slices that become one record batch."""

    def __init__(self, slices: Sequence[ReadSlice], layout: Layout) -> None:
        self.slices = slices
        self.layout = layout
        self.batches = [each.batch for each in slices]
        self.counts = np.array([batch.count for batch in self.batches], np.int64)
        self.rows = int(self.counts.sum())

    @cached_property
    def heads(self) -> Heads:
        return Heads(self.batches)

    @cached_property
    def bodies(self) -> Bodies:
        return Bodies(self.batches, lambda: self.heads, self.layout)

    def record_batch(self) -> pa.RecordBatch:
        columns = [_COLUMNS[name](self) for name in self.layout.columns]
        return pa.RecordBatch.from_arrays(columns, schema=self.layout.arrow)

    def numbers(self, values: Iterable[int]) -> npt.NDArray[np.int64]:
        """For every row the number of its slice."""
        return np.repeat(np.fromiter(values, np.int64, len(self.slices)), self.counts)

    def texts(self, values: Sequence[str]) -> pa.StringArray:
        """For every row the text of its slice; different texts are few."""
        if len(set(values)) == 1:
            return repeated(values[0], self.rows)
        return to_texts(values).take(to_numbers(np.repeat(np.arange(len(values)), self.counts)))


def _positions(rows: Gathered) -> pa.Array:
    before = np.cumsum(rows.counts) - rows.counts
    return to_numbers(rows.numbers(each.first for each in rows.slices) - np.repeat(before, rows.counts) + np.arange(rows.rows))


def _accepted(rows: Gathered) -> pa.Array:
    accepted_us = rows.numbers(each.accepted_us for each in rows.slices)
    return timestamps(accepted_us, accepted_us != 0)


def _ids(rows: Gathered) -> pa.StringArray:
    """Counted from the first one of the batch, unless a head names another."""
    counted = id_texts((batch.first_id, batch.count) for batch in rows.batches)
    return _unless_named([head.id for head in rows.heads.kinds], counted, rows)


def _sources(rows: Gathered) -> pa.StringArray:
    of_batches = rows.texts([batch.source for batch in rows.batches])
    return _unless_named([head.source for head in rows.heads.kinds], of_batches, rows)


def _unless_named(named: list[str | None], of_batches: pa.StringArray, rows: Gathered) -> pa.StringArray:
    if not any(named):
        return of_batches
    return pc.coalesce(rows.heads.texts([name or None for name in named]), of_batches)


_COLUMNS: dict[str, Callable[[Gathered], Any]] = {
    "destination": lambda rows: rows.texts([each.destination for each in rows.slices]),
    "position": _positions,
    "accepted_at": _accepted,
    "id": _ids,
    "source": _sources,
    "type": lambda rows: rows.heads.texts([head.type for head in rows.heads.kinds]),
    "time": lambda rows: timestamps(rows.heads.times_us),
    "subject": lambda rows: rows.heads.texts([head.subject for head in rows.heads.kinds]),
    "datacontenttype": lambda rows: rows.heads.texts([head.datacontenttype for head in rows.heads.kinds]),
    "dataschema": lambda rows: rows.heads.texts([head.dataschema for head in rows.heads.kinds]),
    "event_group": lambda rows: rows.heads.texts([head.group for head in rows.heads.kinds]),
    "correlation_id": lambda rows: rows.heads.texts([head.correlation_id for head in rows.heads.kinds]),
    "reply_to": lambda rows: rows.heads.texts([head.reply_to for head in rows.heads.kinds]),
    "priority": lambda rows: to_numbers(rows.numbers(batch.priority for batch in rows.batches).astype(np.int32)),
    "expires_at": lambda rows: rows.heads.expiries(),
    "size": lambda rows: rows.bodies.sizes,
    "properties": lambda rows: rows.heads.properties(rows.layout.properties),
    "data": lambda rows: rows.bodies.data,
    "bad_data": lambda rows: rows.bodies.bad_data,
}
