"""The columns of rows that are to become events: which there may be, of which types, and what they say of each row.

    data (or value)    binary as it is, string as UTF-8, struct, array and map as JSON; null: no data
    destination, type, id, source, subject, datacontenttype, dataschema, event_group, correlation_id, reply_to      string
    priority           a whole number
    time, expires_at   timestamp
    properties         map of strings to strings, numbers or booleans; or a string, one JSON object
    bad_data           binary, for rows whose data is null: what was read comes back as it was

`position`, `accepted_at` and `size` of events that were read are passed over: events that are sent get their own. Any other
column is refused, because it would be lost without a word.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.errors import BadEvent
from holdfast.event.event import BINARY, JSON, TEXT, check_parts, check_properties

TEXTS = (
    "destination", "type", "id", "source", "subject", "datacontenttype", "dataschema", "event_group", "correlation_id",
    "reply_to",
)  # fmt: skip
PASSED_OVER = ("position", "accepted_at", "size")
DATA = ("data", "value")
KNOWN = (*DATA, *TEXTS, "priority", "time", "expires_at", "properties", "bad_data", *PASSED_OVER)

_DOCUMENT = msgspec.json.Decoder(dict[str, Any])

Rows: TypeAlias = pa.RecordBatch | pa.Table


class RowColumns:
    """Raises BadEvent, with column and row, for what cannot be sent: for its names and types at once, of no rows too.

    `first_row` is what its first row is called.
    """

    def __init__(self, rows: Rows, first_row: int = 0) -> None:
        self.rows: int = rows.num_rows
        self.first_row = first_row
        self._columns = {name: _whole(rows.column(index)) for index, name in enumerate(_checked_names(rows.schema))}
        self._data_name = "value" if "value" in self._columns else "data"
        for name, column in self._columns.items():
            _check_type(name, column.type)

    def refused(self, column: str, row: int, why: str) -> BadEvent:
        row += self.first_row
        return BadEvent(f"row {row}, column {column!r}: {why}", column=column, row=row)

    def _present(self, name: str) -> pa.Array | None:
        """A column that says anything."""
        column = self._columns.get(name)
        return column if column is not None and column.null_count < self.rows else None

    # --- texts, numbers, times ---------------------------------------------------------------------------------------

    def text(self, name: str) -> pa.Array | None:
        """A column of texts as it is; None when it says nothing."""
        return self._present(name)

    def texts(self, name: str) -> list[str | None] | None:
        column = self.text(name)
        if column is None:
            return None
        found: list[str | None] = column.to_pylist()
        return found

    def priorities(self, default: int, most: int) -> npt.NDArray[np.int64]:
        column = self._present("priority")
        if column is None:
            return np.full(self.rows, default)
        found: npt.NDArray[np.int64] = column.cast(pa.int64(), safe=False).fill_null(default).to_numpy()
        wrong = np.flatnonzero((found < 0) | (found > most))
        if len(wrong):
            raise self.refused("priority", int(wrong[0]), f"{found[wrong[0]]} is outside 0..{most}")
        return found

    def moments_us(self, name: str, default_us: int) -> npt.NDArray[np.int64] | None:
        """Microseconds since 1970; None when the column says nothing."""
        column = self._present(name)
        if column is None:
            return None
        known = column.cast(pa.timestamp("us", tz="UTC"), safe=False).cast(pa.int64())
        found: npt.NDArray[np.int64] = known.fill_null(default_us).to_numpy()
        return found

    def properties(self) -> list[dict[str, Any] | None] | None:
        column = self._present("properties")
        if column is None:
            return None
        if _is_text(column.type):
            documents = self._parsed(column.to_pylist())
            self._check_properties(documents, has_any=True)
            return documents
        found = [dict(pairs) if pairs else None for pairs in column.to_pylist()]
        self._check_properties(found, has_any=_has_floats(column.type))
        return found

    def _parsed(self, texts: list[str | None]) -> list[dict[str, Any] | None]:
        """Properties that are written in JSON, as the source reads them with the option `properties`."""
        found: list[dict[str, Any] | None] = []
        for row, text in enumerate(texts):
            try:
                found.append(None if text is None else _DOCUMENT.decode(text) or None)
            except msgspec.DecodeError as problem:
                raise self.refused("properties", row, f"{text!r:.80} is not a JSON object ({problem})") from None
        return found

    def _check_properties(self, found: list[dict[str, Any] | None], *, has_any: bool) -> None:
        """Their names, each once; their values where the type of the column allows for what no property can be."""
        seen: set[str] = set()
        for row, properties in enumerate(found):
            if properties is None or (properties.keys() <= seen and not has_any):
                continue
            try:
                check_properties(properties)
            except BadEvent as problem:
                raise self.refused("properties", row, problem.sentence) from None
            seen.update(properties)

    # --- data --------------------------------------------------------------------------------------------------------

    def bodies(self) -> tuple[pa.Array, str]:
        """The data as bytes, nothing for what is null, and what it is."""
        data = self._columns.get(self._data_name)
        if data is None:
            raise BadEvent(
                f"there is no column 'data' (nor 'value') in {', '.join(self._columns) or 'nothing'}; name what is to be sent, "
                "as with frame.select(to_json(struct('*')).alias('data'))",
                column="data",
            )
        made, datacontenttype = self._encoded(data)
        made = self._with_bad_data(made)
        self._check_not_large(made)
        return made.fill_null(b""), datacontenttype

    def _encoded(self, data: pa.Array) -> tuple[pa.Array, str]:
        kind = data.type
        if _is_binary(kind):
            return data.cast(pa.large_binary()), BINARY
        if _is_text(kind):
            return data.cast(pa.large_binary()), TEXT
        if pa.types.is_null(kind):
            return pa.nulls(self.rows, pa.large_binary()), JSON
        return pa.array(self._documents(data), pa.large_binary()), JSON

    def _documents(self, data: pa.Array) -> list[bytes | None]:
        encode, plain, has_floats = msgspec.json.Encoder().encode, _plain(data.type), _has_floats(data.type)
        found: list[bytes | None] = []
        for row, value in enumerate(data.to_pylist()):
            try:
                made = None if value is None else encode(plain(value))
                if has_floats and made is not None and made.find(b"null") >= 0:
                    check_parts(plain(value), is_binary_text=True)
                found.append(made)
            except BadEvent as problem:
                raise self.refused(self._data_name, row, problem.sentence) from None
            except (TypeError, ValueError, OverflowError, RecursionError) as problem:
                raise self.refused(self._data_name, row, f"it cannot be written as JSON ({problem})") from None
        return found

    def _with_bad_data(self, made: pa.Array) -> pa.Array:
        bad_data = self._present("bad_data")
        if bad_data is None:
            return made
        return pc.coalesce(made, bad_data.cast(pa.large_binary()))

    def _check_not_large(self, made: pa.Array) -> None:
        """The data of a large event is not in a table; to send it without would lose it without a word."""
        sizes = self._present("size")
        if sizes is None or not made.null_count or not pa.types.is_integer(sizes.type):
            return
        lost = pc.indices_nonzero(pc.and_(made.is_null(), pc.greater(sizes.fill_null(0), 0)))
        if len(lost):
            row = lost[0].as_py()
            raise self.refused(
                self._data_name,
                row,
                f"it is null, and 'size' says {sizes[row]}: a large event, whose data is not in the table; leave such rows out, "
                "with where('data IS NOT NULL OR size = 0'), or drop the column 'size' to send them without data",
            )


def _checked_names(schema: pa.Schema) -> list[str]:
    for name in schema.names:
        if name not in KNOWN:
            near = difflib.get_close_matches(name, KNOWN, 1)
            meant = f" Did you mean {near[0]!r}?" if near else ""
            raise BadEvent(
                f"column {name!r:.80} has no place in an event.{meant} There are: {', '.join(KNOWN)}; put others into 'data' or "
                "'properties', or drop them",
                column=name,
            )
        if schema.names.count(name) > 1:
            raise BadEvent(f"there are two columns {name!r}; drop one", column=name)
    if all(name in schema.names for name in DATA):
        raise BadEvent("there are both 'data' and 'value', which mean the same; drop one of them", column="value")
    return list(schema.names)


def _check_type(name: str, kind: pa.DataType) -> None:
    fits, wanted = _TYPES.get(name, (_is_text, "a string"))
    if name not in PASSED_OVER and not pa.types.is_null(kind) and not fits(kind):
        raise BadEvent(f"column {name!r} is {kind}, and is to be {wanted}; cast it", column=name, type=str(kind))


def _whole(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_binary(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def _is_property(kind: pa.DataType) -> bool:
    return _is_text(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)


def _is_document(kind: pa.DataType) -> bool:
    return bool(pa.types.is_struct(kind) or _is_list(kind) or pa.types.is_map(kind))


def _is_data(kind: pa.DataType) -> bool:
    return _is_binary(kind) or _is_text(kind) or _is_document(kind)


def _is_moment(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind) and kind.tz is not None)


def _is_properties(kind: pa.DataType) -> bool:
    return _is_text(kind) or bool(pa.types.is_map(kind) and _is_text(kind.key_type) and _is_property(kind.item_type))


_MOMENT = (_is_moment, "a timestamp with a time zone (not timestamp_ntz)")
_DATA = (_is_data, "binary, a string, or a struct, array or map, which are sent as JSON")
# Which types a column may have, and that in words; all others are strings.
_TYPES: dict[str, tuple[Callable[[pa.DataType], bool], str]] = {
    "data": _DATA,
    "value": _DATA,
    "bad_data": (_is_binary, "binary"),
    "priority": (pa.types.is_integer, "a whole number"),
    "time": _MOMENT,
    "expires_at": _MOMENT,
    "properties": (_is_properties, "a map of strings to strings, whole numbers, floating-point numbers or booleans, or JSON"),
}


def _has_floats(kind: pa.DataType) -> bool:
    """Whether values of this type may have NaN or infinity in them, of which JSON would make null."""
    if pa.types.is_map(kind):
        return _has_floats(kind.item_type)
    if _is_list(kind):
        return _has_floats(kind.value_type)
    if pa.types.is_struct(kind):
        return any(_has_floats(field.type) for field in kind)
    return bool(pa.types.is_floating(kind))


def _plain(kind: pa.DataType) -> Callable[[Any], Any]:
    """A function from a value of this type, as Arrow hands it out, to one that JSON has: maps come as lists of pairs."""
    if pa.types.is_map(kind):
        item = _plain(kind.item_type)
        return lambda value: None if value is None else {key: item(each) for key, each in value}
    if _is_list(kind):
        element = _plain(kind.value_type)
        return lambda value: None if value is None else [element(each) for each in value]
    if pa.types.is_struct(kind):
        fields = {field.name: _plain(field.type) for field in kind}
        return lambda value: None if value is None else {name: fields[name](each) for name, each in value.items()}
    return lambda value: value
