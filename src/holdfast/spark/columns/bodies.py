"""The bodies of many batches as the columns data, bad_data and size.

The bodies of a batch lie one behind the other, as Arrow wants them: put behind those of the other batches, they are a column.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from holdfast.errors import BatchDamaged
from holdfast.event.batch import Batch
from holdfast.spark.columns import json_data
from holdfast.spark.columns.arrays import to_numbers
from holdfast.spark.columns.heads import Heads
from holdfast.spark.columns.schema import Layout


class Bodies:
    """`heads` are asked for only where a body is empty: it may be that of a large event."""

    def __init__(self, batches: Sequence[Batch], heads: Callable[[], Heads], layout: Layout) -> None:
        self._heads = heads
        self._layout = layout
        self.rows = sum(batch.count for batch in batches)
        self._bytes = batches[0].bodies if len(batches) == 1 else b"".join([batch.bodies for batch in batches])
        self._lengths = np.frombuffer(b"".join([batch.body_lengths for batch in batches]), "<u4")
        self._offsets = _offsets(self._lengths, batches)

    @cached_property
    def _large_bytes(self) -> npt.NDArray[np.int64] | None:
        """For every row how large its event is if that is kept in fragments, and -1 if not; None where no event is."""
        if self._lengths.all():
            return None
        heads = self._heads()
        if not any(head.large for head in heads.kinds):
            return None
        return heads.numbers([-1 if head.large is None else head.large.size for head in heads.kinds])

    @property
    def sizes(self) -> pa.Array:
        lengths = self._lengths.astype(np.int64)
        return to_numbers(lengths if self._large_bytes is None else np.maximum(lengths, self._large_bytes))

    @property
    def data(self) -> pa.Array:
        return self._columns[0]

    @property
    def bad_data(self) -> pa.Array:
        return self._columns[1]

    @cached_property
    def _columns(self) -> tuple[pa.Array, pa.Array]:
        """Data and bad data."""
        if self._layout.format == "text":
            return self._texts()
        return (
            self._documents() if self._layout.format == "json" else (self._binary(pa.binary()), pa.nulls(self.rows, pa.binary()))
        )

    def _binary(self, kind: pa.DataType, only: npt.NDArray[np.bool_] | None = None) -> pa.Array:
        """The bodies, or only these of them, as a column; null for a large event."""
        is_here = only if only is not None else None if self._large_bytes is None else self._large_bytes < 0
        validity = None if is_here is None else pa.py_buffer(np.packbits(is_here, bitorder="little"))
        return pa.Array.from_buffers(kind, self.rows, [validity, pa.py_buffer(self._offsets), pa.py_buffer(self._bytes)])

    def _texts(self) -> tuple[pa.Array, pa.Array]:
        try:
            return self._binary(pa.binary()).cast(pa.string()), pa.nulls(self.rows, pa.binary())
        except pa.ArrowInvalid:
            is_text = np.fromiter(map(_is_text, self._each()), np.bool_, self.rows)
        is_here = is_text if self._large_bytes is None else is_text & (self._large_bytes < 0)
        return self._binary(pa.string(), is_here), self._binary(pa.binary(), ~is_text)

    def _documents(self) -> tuple[pa.Array, pa.Array]:
        parsed = json_data.parse(self._each(), self._layout.data_type)
        if not parsed.unfit:
            return parsed.data, pa.nulls(self.rows, pa.binary())
        is_unfit = np.zeros(self.rows, np.bool_)
        is_unfit[parsed.unfit] = True
        return parsed.data, self._binary(pa.binary(), is_unfit)

    def _each(self) -> list[memoryview]:
        view = memoryview(self._bytes)
        return [view[begin:end] for begin, end in pairwise(self._offsets.tolist())]


def _offsets(lengths: npt.NDArray[np.uint32], batches: Sequence[Batch]) -> npt.NDArray[np.int32]:
    """Where each body begins, and the last one ends. Arrow believes it, so it must be true."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:], dtype=np.int64)
    ends = np.cumsum([len(batch.bodies) for batch in batches])
    if not np.array_equal(offsets[np.cumsum([batch.count for batch in batches])], ends):
        raise BatchDamaged("the lengths inside a batch do not add up; it was damaged on the way")
    return offsets.astype(np.int32)


def _is_text(body: memoryview) -> bool:
    try:
        str(body, "utf-8")
    except UnicodeDecodeError:
        return False
    return True
