"""Rows as events: the columns of a frame become batches, each for one destination, as a producer would have made them.

    columns ─ checked (`row_columns`) ─▶ heads and bodies ─ by destination and priority ─▶ batches of about 64 KiB

Rows of one destination and priority keep their order. Rows that say nothing but data, destination, type and time have heads that
are put together from parts that were encoded once, as in `client.sending.outgoing`; others are encoded each.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from holdfast.client.sending.batch_builder import EVENT_BYTES, Kind
from holdfast.client.sending.outgoing import EVENT_BYTES_MAX
from holdfast.destination import name as names
from holdfast.errors import BadName, TooLarge
from holdfast.event import batch
from holdfast.event.event import PRIORITY_DEFAULT, PRIORITY_MAX, TYPE_DEFAULT, Head
from holdfast.spark.sink.row_columns import RowColumns, Rows
from holdfast.spark.sink.row_heads import RowHeads

# Nobody waits for one row: batches are larger than a producer makes them, and there are fewer of them to send.
BATCH_BYTES = 256 << 10


@dataclass(frozen=True)
class RowSettings:
    """Values for events where no column has one."""

    source: str
    destination: str | None = None
    kind: Kind = "topic"
    type: str = TYPE_DEFAULT
    datacontenttype: str | None = None  # None: as the type of the data says
    priority: int = PRIORITY_DEFAULT
    ttl_ms: int | None = None
    delay_ms: int = 0
    batch_bytes: int = BATCH_BYTES


class Ids(Protocol):
    def take(self, count: int) -> int:
        """The first of so many ids that follow each other, and were never given to anyone."""


class Encoded(NamedTuple):
    """A batch that is ready to be sent."""

    destination: str
    kind: Kind
    batch: bytes
    events: int


def to_batches(rows: Rows, settings: RowSettings, ids: Ids, now_us: int, first_row: int = 0) -> Iterator[Encoded]:
    """BadEvent, BadName or TooLarge, naming row and column, before anything is handed out.

    `now_us` is the time of events that have none; `first_row` is what the first of these rows is called.
    """
    if not rows.num_rows:
        return iter(())
    return _Writing(RowColumns(rows, first_row), settings, now_us).batches(ids)


class _Writing:
    def __init__(self, columns: RowColumns, settings: RowSettings, now_us: int) -> None:
        self._columns = columns
        self._settings = settings
        self._not_before_ms = now_us // 1000 + settings.delay_ms if settings.delay_ms else 0
        bodies, datacontenttype = columns.bodies()
        self._offsets, self._bytes = _raw(bodies)
        usual = Head(
            type=settings.type,
            time_us=now_us,
            datacontenttype=settings.datacontenttype or datacontenttype,
            expires_at_ms=now_us // 1000 + settings.ttl_ms if settings.ttl_ms is not None else 0,
        )
        self._heads = RowHeads(columns, usual)
        self._names, self._destinations = self._sorted_destinations()
        self._priorities = columns.priorities(settings.priority, PRIORITY_MAX)
        self._sizes = self._checked_sizes()

    def _sorted_destinations(self) -> tuple[list[str], npt.NDArray[np.int64]]:
        """The names of all destinations, and for every row the number of its own."""
        column, default = self._columns.text("destination"), self._settings.destination
        if column is None:
            if default is None:
                raise self._columns.refused("destination", 0, _NO_DESTINATION)
            return [default], np.zeros(self._columns.rows, np.int64)
        found = column.cast(pa.string()) if default is None else column.cast(pa.string()).fill_null(default)
        if found.null_count:
            raise self._columns.refused(
                "destination", int(np.argmax(found.is_null().to_numpy(zero_copy_only=False))), _NO_DESTINATION
            )
        encoded = found.dictionary_encode()
        known, numbers = encoded.dictionary.to_pylist(), encoded.indices.to_numpy().astype(np.int64)
        for number, name in enumerate(known):
            self._check_name(name, numbers, number)
        return known, numbers

    def _check_name(self, name: str, numbers: npt.NDArray[np.int64], number: int) -> None:
        try:
            if not names.is_temporary(name):
                names.check_usable(name)
            names.check_sendable(name)
        except BadName as problem:
            row = int(np.argmax(numbers == number)) + self._columns.first_row
            raise BadName(f"row {row}, column 'destination': {problem.sentence}", **problem.fields, row=row) from None

    def _checked_sizes(self) -> npt.NDArray[np.int64]:
        sizes = np.diff(self._offsets) + self._heads.lengths
        largest = int(np.argmax(sizes))
        if sizes[largest] > EVENT_BYTES_MAX:
            row = largest + self._columns.first_row
            raise TooLarge(
                f"row {row} is an event of {sizes[largest]} bytes, head and data, over the limit of {EVENT_BYTES_MAX}; leave it "
                "out, or send it with send_stream of a client",
                size=int(sizes[largest]),
                limit=EVENT_BYTES_MAX,
                row=row,
            )
        return sizes + EVENT_BYTES

    # --- batches -----------------------------------------------------------------------------------------------------

    def batches(self, ids: Ids) -> Iterator[Encoded]:
        lanes = self._destinations * (PRIORITY_MAX + 1) + self._priorities
        if (lanes == lanes[0]).all():
            yield from self._lane(np.arange(self._columns.rows), ids)
            return
        order = np.argsort(lanes, kind="stable")
        cuts = np.flatnonzero(np.diff(lanes[order])) + 1
        for rows in np.split(order, cuts):
            yield from self._lane(rows, ids)

    def _lane(self, rows: npt.NDArray[np.int64], ids: Ids) -> Iterator[Encoded]:
        """The batches of rows of one destination and priority."""
        ends = np.cumsum(self._sizes[rows])
        begin = 0
        while begin < len(rows):
            before = int(ends[begin - 1]) if begin else 0
            end = max(begin + 1, int(np.searchsorted(ends, before + self._settings.batch_bytes, side="right")))
            yield self._batch(rows[begin:end], ids)
            begin = end

    def _batch(self, rows: npt.NDArray[np.int64], ids: Ids) -> Encoded:
        chosen = rows.tolist()
        made = batch.encode(
            self._heads.encoded(chosen),
            [
                self._bytes[begin:end]
                for begin, end in zip(self._offsets[rows].tolist(), self._offsets[rows + 1].tolist(), strict=True)
            ],
            source=self._settings.source,
            first_id=ids.take(len(chosen)),
            priority=int(self._priorities[chosen[0]]),
            not_before_ms=self._not_before_ms,
            has_groups=self._heads.has_groups(rows),
            **self._heads.expiry(rows),
        )
        return Encoded(self._names[self._destinations[chosen[0]]], self._settings.kind, made, len(chosen))


_NO_DESTINATION = "there is none; fill the column, or give the option destination for rows that name none"


def _raw(bodies: pa.Array) -> tuple[npt.NDArray[np.int64], Any]:
    """Where each body begins, and all of their bytes."""
    _, offsets, data = bodies.buffers()
    begins = np.frombuffer(offsets, np.int64)[bodies.offset : bodies.offset + len(bodies) + 1]
    return begins, b"" if data is None else data.to_pybytes()
