"""JSON bodies as an Arrow struct: what fits the schema becomes a row, what does not is named, and nothing stops the others.

    body ─ msgspec, with a type made from the schema ─▶ objects ─ field by field ─▶ Arrow

A field that is missing is null, one that the schema does not know is passed over. A body does not fit when it is no JSON, has
another type somewhere, a number outside its range, no value where one is required, or more levels than can be read. An empty body
and `null` are null. Binary fields are base 64; times are ISO 8601, taken as UTC where they have no zone.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from decimal import Decimal
from functools import lru_cache
from operator import attrgetter
from typing import Annotated, Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

_FLOAT32_MAX = float(np.finfo(np.float32).max)
# Errors of decoding a body, or of making Arrow of it.
_UNFIT = (msgspec.MsgspecError, ValueError, TypeError, ArithmeticError, RecursionError)

Body = bytes | memoryview


class Parsed(NamedTuple):
    data: pa.StructArray
    unfit: list[int]  # which bodies did not fit


def parse(bodies: Sequence[Body], kind: pa.StructType) -> Parsed:
    decode = _decoder(kind).decode
    unfit: list[int] = []
    try:
        rows = [decode(body) if len(body) else None for body in bodies]
        return Parsed(_arrow(rows, kind), unfit)
    except _UNFIT:
        rows = []
    for index, body in enumerate(bodies):
        row = _one(decode, body, kind)
        if row is _DOES_NOT_FIT:
            unfit.append(index)
            row = None
        rows.append(row)
    return Parsed(_arrow(rows, kind), unfit)


_DOES_NOT_FIT = object()


def _one(decode: Any, body: Body, kind: pa.StructType) -> Any:
    if not len(body):
        return None
    try:
        row = decode(body)
        _arrow([row], kind)  # a decimal may have too many digits, a time be outside of what Arrow holds
    except _UNFIT:
        return _DOES_NOT_FIT
    return row


@lru_cache(maxsize=64)
def _decoder(kind: pa.StructType) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(_python_type(kind) | None)


def _python_type(kind: pa.DataType) -> Any:
    """The type that msgspec is to find where the schema has this one."""
    if pa.types.is_struct(kind):
        return _struct_type(kind)
    if pa.types.is_map(kind):
        return dict[str, _optional(kind.item_field)]  # type: ignore[misc]  # made while it runs
    if pa.types.is_list(kind):
        return list[_optional(kind.value_field)]  # type: ignore[misc]
    if pa.types.is_integer(kind):
        most = (1 << (kind.bit_width - 1)) - 1
        return Annotated[int, msgspec.Meta(ge=-most - 1, le=most)]
    if pa.types.is_float32(kind):
        return Annotated[float, msgspec.Meta(ge=-_FLOAT32_MAX, le=_FLOAT32_MAX)]
    if pa.types.is_decimal(kind):
        return Decimal
    if pa.types.is_timestamp(kind) and kind.tz is None:
        return Annotated[datetime.datetime, msgspec.Meta(tz=False)]
    plain: dict[Any, Any] = {
        pa.bool_(): bool, pa.float64(): float, pa.string(): str, pa.binary(): bytes, pa.date32(): datetime.date,
        pa.timestamp("us", tz="UTC"): datetime.datetime,
    }  # fmt: skip
    return plain[kind]


def _optional(field: pa.Field) -> Any:
    found = _python_type(field.type)
    return found | None if field.nullable else found


def _struct_type(kind: pa.StructType) -> Any:
    """The names of the schema may be anything, those of Python are numbers."""
    fields: list[tuple[str, Any, Any]] = []
    for index, field in enumerate(kind):
        default = msgspec.field(default=None, name=field.name) if field.nullable else msgspec.field(name=field.name)
        fields.append((f"f{index}", _optional(field), default))
    return msgspec.defstruct("Row", fields, kw_only=True, gc=False, eq=False)


def _arrow(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    if pa.types.is_struct(kind):
        return _struct(values, kind)
    if pa.types.is_map(kind):
        return _map(values, kind)
    if pa.types.is_list(kind):
        items = [item for value in values if value is not None for item in value]
        return pa.ListArray.from_arrays(_offsets(values), _arrow(items, kind.value_type), type=kind)
    return pa.array(values, kind)


def _struct(values: Sequence[Any], kind: pa.StructType) -> pa.StructArray:
    has_null = None in values
    fields: list[pa.Array] = []
    for index, field in enumerate(kind):
        get = attrgetter(f"f{index}")
        found = [None if value is None else get(value) for value in values] if has_null else list(map(get, values))
        fields.append(_arrow(found, field.type))
    mask = pa.array([value is None for value in values], pa.bool_()) if has_null else None
    return pa.StructArray.from_arrays(fields, fields=list(kind), mask=mask)


def _map(values: Sequence[Any], kind: pa.MapType) -> pa.MapArray:
    keys = [key for value in values if value is not None for key in value]
    items = [item for value in values if value is not None for item in value.values()]
    return pa.MapArray.from_arrays(_offsets(values), pa.array(keys, pa.string()), _arrow(items, kind.item_type), type=kind)


def _offsets(values: Sequence[Any]) -> pa.Array:
    """Where the items of each value begin; null where there is no value, which is how Arrow is told."""
    offsets: list[int | None] = []
    at = 0
    for value in values:
        offsets.append(None if value is None else at)
        at += 0 if value is None else len(value)
    offsets.append(at)
    return pa.array(offsets, pa.int32())
