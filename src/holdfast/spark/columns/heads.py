"""The heads of many batches as columns.

Most batches hold heads that differ in nothing but the eight bytes of their time. One of them is decoded for all, the times are
taken out as a column of bytes, and every other column repeats one value. Where heads are of few kinds, one of each is decoded.
All others are decoded each.

    kinds      heads that were decoded
    which      for every row the number of its head in kinds; None when each row has its own
    times_us   for every row
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from holdfast.event.batch import Batch
from holdfast.event.event import NOT_READABLE, Head, decode_head, decode_heads, unreadable_head
from holdfast.spark.columns.arrays import repeated_text, to_numbers, to_texts, to_validity
from holdfast.spark.columns.head_times import around_time, bare_head, bare_heads, readable_bare
from holdfast.spark.columns.property_maps import Properties, to_documents, to_maps
from holdfast.spark.columns.schema import PROPERTIES, TIMESTAMP, PropertyFormat

# Below this many events, decoding each is faster than finding out that they are alike.
ALIKE_MIN = 8
# Heads are of few kinds when there are at least so many of each, as far as a sample of some batches shows.
FEW_KINDS = 4
SAMPLE_BATCHES = 4
# The years 1 to 9999, which is what both ends of Spark can show; a moment outside is shown as the nearest one inside.
TIME_MIN_US, TIME_MAX_US = -62_135_596_800_000_000, 253_402_300_799_999_999
# One record batch after the other says the same of its events: columns of one short text are kept, this long, some 60 MB at most.
KEPT_ROWS = 1 << 14
KEPT_LENGTH_MAX = 120

Times = npt.NDArray[np.int64]


@dataclass(slots=True, eq=False)
class _Template:
    """The bytes around the time in heads that are alike."""

    head: Head
    before: bytes
    after: bytes
    number: int = -1  # in kinds, once there are such heads


class _Part(NamedTuple):
    """The rows of a batch: the numbers of their heads, and their times."""

    which: npt.NDArray[np.int64]
    times_us: Times


class Heads:
    def __init__(self, batches: Sequence[Batch]) -> None:
        self.kinds: list[Head] = []
        self._templates: dict[bytes, _Template | None] = {}
        parts: dict[int, _Part] = {}
        for template, run in groupby(range(len(batches)), lambda index: self._template_of(batches[index])):
            if template is not None:
                parts |= self._of_alike(list(run), batches, template)
        others = [index for index in range(len(batches)) if index not in parts]
        parts |= zip(others, self._of_others([batches[index] for index in others]), strict=True)
        which = np.concatenate([parts[index].which for index in range(len(batches))])
        self.rows = len(which)
        self.which = which if len(self.kinds) < self.rows else None
        self.times_us = _clipped(np.concatenate([parts[index].times_us for index in range(len(batches))]))

    # --- heads that are alike ----------------------------------------------------------------------------------------

    def _template_of(self, batch: Batch) -> _Template | None:
        """The template that all heads of a batch may share: they are equally long, and the first one has a time."""
        if batch.count < ALIKE_MIN or bytes(batch.head_lengths) != bytes(batch.head_lengths[:4]) * batch.count:
            return None
        first = bare_head(bytes(batch.heads[: len(batch.heads) // batch.count]))
        if first not in self._templates:
            found = readable_bare(first)
            self._templates[first] = None if found is None else _Template(found, *around_time(found))
        return self._templates[first]

    def _of_alike(self, run: list[int], batches: Sequence[Batch], template: _Template) -> dict[int, _Part]:
        """The parts of those of these batches whose heads differ in nothing but their times: most likely all of them."""
        found = self._if_alike([batches[index] for index in run], template)
        if found is not None:
            return {run[0]: found, **dict.fromkeys(run[1:], _NO_ROWS)}
        if len(run) == 1:
            return {}
        return {index: part for index in run if (part := self._if_alike([batches[index]], template)) is not None}

    def _if_alike(self, batches: list[Batch], template: _Template) -> _Part | None:
        before, after = template.before, template.after
        heads = b"".join([batch.heads for batch in batches])
        count = sum([batch.count for batch in batches])
        if len(heads) != count * (len(before) + 8 + len(after)):
            return None
        rows = np.frombuffer(heads, np.dtype([("before", f"S{len(before)}"), ("time", ">u8"), ("after", f"S{len(after)}")]))
        bare = bytearray(heads)
        np.frombuffer(bare, rows.dtype)["time"] = 0
        if bare != (before + bytes(8) + after) * count:
            return None
        if template.number < 0:
            template.number = len(self.kinds)
            self.kinds.append(template.head)
        return _Part(np.full(count, template.number), _clipped_unsigned(rows["time"]))

    # --- others ------------------------------------------------------------------------------------------------------

    def _of_others(self, batches: list[Batch]) -> list[_Part]:
        return self._if_few_kinds(batches) or [self._each(batch) for batch in batches]

    def _if_few_kinds(self, batches: list[Batch]) -> list[_Part]:
        """The parts of batches whose heads are of few kinds, and within a kind differ in nothing but their times; else none."""
        if not _seem_few(batches[:SAMPLE_BATCHES]) or (bare := bare_heads(batches)) is None:
            return []
        numbers: dict[bytes, int] = {}
        which = np.array([numbers.setdefault(head, len(numbers)) for head in bare.heads], np.int64) + len(self.kinds)
        kinds = [kind for head in numbers if (kind := readable_bare(head)) is not None]
        if len(kinds) < len(numbers):
            return []
        self.kinds.extend(kinds)
        cuts = np.cumsum([batch.count for batch in batches])[:-1]
        return [_Part(*each) for each in zip(np.split(which, cuts), np.split(_clipped_unsigned(bare.times), cuts), strict=True)]

    def _each(self, batch: Batch) -> _Part:
        try:
            heads = decode_heads(batch.heads, batch.count)
        except NOT_READABLE:  # one alone is not to keep a table from the others
            heads = [_readable(batch.head(index)) for index in range(batch.count)]
        first = len(self.kinds)
        self.kinds.extend(heads)
        return _Part(np.arange(first, first + batch.count), _integers([head.time_us for head in heads]))

    # --- columns -----------------------------------------------------------------------------------------------------

    def texts(self, values: list[str] | list[str | None]) -> pa.StringArray:
        """A column of texts that are known for each of `kinds`."""
        if len(values) == 1:
            return repeated(values[0], self.rows)
        return self._spread(to_texts(values))

    def _spread(self, values: pa.Array) -> pa.Array:
        return values if self.which is None else values.take(to_numbers(self.which))

    def numbers(self, values: list[int]) -> Times:
        """A column of whole numbers that are known for each of `kinds`, as an array of numpy."""
        known = _integers(values)
        return known if self.which is None else known[self.which]

    def expiries(self) -> pa.Array:
        expires_us = _clipped(self.numbers([head.expires_at_ms for head in self.kinds]), 1000) * 1000
        return timestamps(expires_us, expires_us != 0)

    def properties(self, format: PropertyFormat) -> pa.Array:
        maps = [head.properties or _NONE for head in self.kinds]
        if format == "json":
            return self.texts(to_documents(maps))
        if not any(maps):
            return pa.MapArray.from_arrays(to_numbers(np.zeros(self.rows + 1, np.int32)), _NO_TEXTS, _NO_TEXTS, type=PROPERTIES)
        return self._spread(to_maps(maps))


_NO_ROWS = _Part(np.array([], np.int64), np.array([], np.int64))
_NONE: Properties = {}
_NO_TEXTS = pa.nulls(0, pa.string())


def _seem_few(sample: Sequence[Batch]) -> bool:
    bare = bare_heads(sample) if sample else None
    return bare is not None and len(set(bare.heads)) * FEW_KINDS <= len(bare.heads)


def repeated(text: str | None, rows: int) -> pa.StringArray:
    """A column of one text: the first rows of one that was made before, if there is such."""
    if rows > KEPT_ROWS or len(text or "") > KEPT_LENGTH_MAX:
        return pa.repeat(pa.scalar(text, pa.string()), rows)
    return _kept(text).slice(0, rows)


@lru_cache(maxsize=32)
def _kept(text: str | None) -> pa.StringArray:
    return repeated_text(text, KEPT_ROWS)


def timestamps(moments_us: Times, is_known: npt.NDArray[np.bool_] | None = None) -> pa.Array:
    validity = None if is_known is None else to_validity(is_known)
    return pa.Array.from_buffers(TIMESTAMP, len(moments_us), [validity, pa.py_buffer(np.ascontiguousarray(moments_us))])


def _clipped(moments: Times, unit_us: int = 1) -> Times:
    return np.clip(moments, TIME_MIN_US // unit_us, TIME_MAX_US // unit_us)


def _clipped_unsigned(times: npt.NDArray[np.uint64]) -> Times:
    return np.minimum(times, TIME_MAX_US).astype(np.int64)


def _integers(values: list[int]) -> Times:
    try:
        return np.array(values, np.int64)
    except OverflowError:
        most = np.iinfo(np.int64)
        return np.array([min(max(value, most.min), most.max) for value in values], np.int64)


def _readable(head: memoryview) -> Head:
    try:
        return decode_head(head)
    except NOT_READABLE:
        return unreadable_head()
