"""The heads of rows that are to become events.

Where rows are of few kinds, and within a kind differ in nothing but their times, a head is what stands before the time, the time,
and what stands after it: these parts are encoded once for each kind. Everything else is encoded row by row.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import repeat
from typing import Any, TypedDict

import numpy as np
import numpy.typing as npt

from holdfast.event.event import Head, encode_head
from holdfast.spark.columns.head_times import around_time
from holdfast.spark.columns.heads import TIME_MAX_US, TIME_MIN_US
from holdfast.spark.sink.row_columns import RowColumns

# From here on a time takes eight bytes, as in the heads that are put together.
_EIGHT_BYTES_US = 1 << 32
# Columns for which every row needs a head of its own.
_OWN = ("id", "source", "subject", "datacontenttype", "dataschema", "event_group", "correlation_id", "reply_to")
# Rows are of few kinds when there are at least so many of each: then one head of each kind is encoded.
_FEW_KINDS = 4
_NOT_EMPTY = ("type", "id", "source")

Numbers = npt.NDArray[np.int64]
Texts = list[str | None]
Own = tuple[str | None, ...]  # of a row, what it says in the column type and in those that follow it


class Expiry(TypedDict):
    earliest_expiry_ms: int
    latest_expiry_ms: int


class RowHeads:
    def __init__(self, columns: RowColumns, usual: Head) -> None:
        """`usual` has what a row has that does not say otherwise."""
        self._columns = columns
        self._usual = usual
        self._times_us = self._moments_us("time", usual.time_us, TIME_MIN_US)
        expires_us = self._moments_us("expires_at", usual.expires_at_ms * 1000, 0)
        self._expires_ms = None if expires_us is None else expires_us // 1000
        self._groups = columns.text("event_group")
        self._heads = self._encode()
        self.lengths = np.fromiter(map(len, self._heads), np.int64, len(self._heads))

    def encoded(self, rows: list[int]) -> list[bytes]:
        return [self._heads[row] for row in rows]

    def has_groups(self, rows: Numbers) -> bool:
        return self._groups is not None and self._groups.take(rows).null_count < len(rows)

    def expiry(self, rows: Numbers) -> Expiry:
        """When the first and the last of these rows expire; 0: none does."""
        if self._expires_ms is None:
            return {"earliest_expiry_ms": self._usual.expires_at_ms, "latest_expiry_ms": self._usual.expires_at_ms}
        some = self._expires_ms[rows]
        some = some[some > 0]
        return {"earliest_expiry_ms": int(some.min()) if len(some) else 0, "latest_expiry_ms": int(some.max(initial=0))}

    def _moments_us(self, name: str, default_us: int, least_us: int) -> Numbers | None:
        found = self._columns.moments_us(name, default_us)
        if found is None:
            return None
        wrong = np.flatnonzero((found < least_us) | (found > TIME_MAX_US))
        if len(wrong):
            years = "1 to 9999" if least_us < 0 else "1970 to 9999"
            raise self._columns.refused(name, int(wrong[0]), f"it is not in the years {years}")
        return found

    # --- encoding ----------------------------------------------------------------------------------------------------

    def _encode(self) -> list[bytes]:
        texts = {name: found for name in ("type", *_OWN) if (found := self._texts(name)) is not None}
        properties = self._columns.properties()
        own = list(zip(*(texts.get(name) or repeat(None, self._columns.rows) for name in ("type", *_OWN)), strict=True))
        least_us = self._usual.time_us if self._times_us is None else int(self._times_us.min())
        if properties is None and self._expires_ms is None and "id" not in texts and least_us >= _EIGHT_BYTES_US:
            kinds = dict.fromkeys(own)
            if len(kinds) == 1 or len(kinds) * _FEW_KINDS <= len(own):
                return self._put_together(own, kinds)
        return self._each(own, properties)

    def _texts(self, name: str) -> Texts | None:
        found = self._columns.texts(name)
        if found is not None and name in _NOT_EMPTY and "" in found:
            raise self._columns.refused(name, found.index(""), "it is empty; fill it, or make it null to have it filled in")
        return found

    def _put_together(self, own: list[Own], kinds: Iterable[Own]) -> list[bytes]:
        """Encode one head of each kind, and put each row's own time in the middle."""
        usual = self._usual
        around = {kind: around_time(self._head(kind, usual.time_us, usual.expires_at_ms, None)) for kind in kinds}
        if self._times_us is None:
            now = usual.time_us.to_bytes(8, "big")
            made = {kind: before + now + after for kind, (before, after) in around.items()}
            return [made[kind] for kind in own]
        times = self._times_us.astype(">u8").tobytes()
        pairs = [around[kind] for kind in own]
        return [before + times[8 * row : 8 * row + 8] + after for row, (before, after) in enumerate(pairs)]

    def _each(self, own: list[Own], properties: list[dict[str, Any] | None] | None) -> list[bytes]:
        times = repeat(self._usual.time_us) if self._times_us is None else self._times_us.tolist()
        expiries = repeat(self._usual.expires_at_ms) if self._expires_ms is None else self._expires_ms.tolist()
        rows = zip(own, times, expiries, properties or repeat(None), strict=False)
        return [encode_head(self._head(*row)) for row in rows]

    def _head(self, own: Own, time_us: int, expires_ms: int, properties: dict[str, Any] | None) -> Head:
        type, id, source, subject, datacontenttype, dataschema, group, correlation_id, reply_to = own
        return Head(
            type=type or self._usual.type, time_us=time_us, id=id, source=source, subject=subject, dataschema=dataschema,
            datacontenttype=datacontenttype or self._usual.datacontenttype, properties=properties, group=group,
            correlation_id=correlation_id, reply_to=reply_to, expires_at_ms=expires_ms,
        )  # fmt: skip
