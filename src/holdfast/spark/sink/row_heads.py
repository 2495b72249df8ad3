"""The heads of rows that are to become events.

Where rows differ in type and time alone, a head is what stands before the time, the time, and what stands after it: the parts are
encoded once for each type. Everything else is encoded row by row.
"""

from __future__ import annotations

from itertools import repeat
from typing import Any, TypedDict

import msgspec
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
_NOT_EMPTY = ("type", "id", "source")

Numbers = npt.NDArray[np.int64]
Texts = list[str | None]


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
        least_us = self._usual.time_us if self._times_us is None else int(self._times_us.min())
        is_plain = texts.keys() <= {"type"} and properties is None and self._expires_ms is None
        if is_plain and least_us >= _EIGHT_BYTES_US:
            return self._put_together(texts.get("type") or [None] * self._columns.rows)
        return self._each(texts, properties)

    def _texts(self, name: str) -> Texts | None:
        found = self._columns.texts(name)
        if found is not None and name in _NOT_EMPTY and "" in found:
            raise self._columns.refused(name, found.index(""), "it is empty; fill it, or make it null to have it filled in")
        return found

    def _put_together(self, types: Texts) -> list[bytes]:
        around = {
            type: around_time(msgspec.structs.replace(self._usual, type=type or self._usual.type))
            for type in dict.fromkeys(types)
        }
        if self._times_us is None:
            now = self._usual.time_us.to_bytes(8, "big")
            made = {type: before + now + after for type, (before, after) in around.items()}
            return [made[type] for type in types]
        times = self._times_us.astype(">u8").tobytes()
        pairs = [around[type] for type in types]
        return [before + times[8 * row : 8 * row + 8] + after for row, (before, after) in enumerate(pairs)]

    def _each(self, texts: dict[str, Texts], properties: list[dict[str, Any] | None] | None) -> list[bytes]:
        usual = self._usual
        times = repeat(usual.time_us) if self._times_us is None else self._times_us.tolist()
        expiries = repeat(usual.expires_at_ms) if self._expires_ms is None else self._expires_ms.tolist()
        own = zip(*(texts.get(name) or repeat(None, self._columns.rows) for name in ("type", *_OWN)), strict=True)
        return [
            encode_head(
                Head(
                    type=type or usual.type, time_us=time, id=id, source=source, subject=subject, dataschema=dataschema,
                    datacontenttype=datacontenttype or usual.datacontenttype, properties=pairs, group=group,
                    correlation_id=correlation_id, reply_to=reply_to, expires_at_ms=expires_ms,
                )
            )
            for (type, id, source, subject, datacontenttype, dataschema, group, correlation_id, reply_to), time, expires_ms, pairs
            in zip(own, times, expiries, properties or repeat(None), strict=False)
        ]  # fmt: skip
