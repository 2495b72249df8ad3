"""Properties as a column: of maps from text to text, or of JSON, in which numbers and booleans stay what they are.

Most often all events have the same names, and under a name values of one type: then the values of a name are a column that Arrow
turns into text by itself, which is twice as fast as one by one.

    true, false     numbers as Python writes them     null where a property has no value
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import msgspec
import numpy as np
import pyarrow as pa

from holdfast.event.event import PropertyValue
from holdfast.spark.columns.arrays import to_numbers, to_texts
from holdfast.spark.columns.schema import PROPERTIES

Properties = dict[str, PropertyValue]

_NOTHING = type(None)
_ENCODER = msgspec.json.Encoder()
# Types whose values Arrow writes as we do; it writes floating-point numbers otherwise.
_WRITTEN_BY_ARROW = ((int, pa.int64()), (bool, pa.bool_()))


def to_maps(maps: Sequence[Properties]) -> pa.MapArray:
    names = list(chain.from_iterable(maps))
    values = list(chain.from_iterable(map(dict.values, maps)))
    offsets = np.zeros(len(maps) + 1, np.int32)
    np.cumsum(np.fromiter(map(len, maps), np.int32, len(maps)), out=offsets[1:])
    own = names[: len(maps[0])]
    # No map has a name twice, so that each has all of these if all of them together are these, so many times.
    if own and names == own * len(maps):
        return _maps(offsets, _repeated(own, len(maps)), _interleaved(values, len(own)))
    return _maps(offsets, to_texts(names), to_written(values))


def to_documents(maps: Sequence[Properties]) -> list[str]:
    """Each map as a JSON object."""
    return [_ENCODER.encode(each).decode() for each in maps]


def to_written(values: Sequence[PropertyValue]) -> pa.StringArray:
    found = set(map(type, values))
    if found <= {str, _NOTHING}:
        return to_texts(values)  # type: ignore[arg-type]  # that is what was found
    for kind, arrow in _WRITTEN_BY_ARROW:
        if found <= {kind, _NOTHING}:
            try:
                return pa.array(values, arrow).cast(pa.string())
            except OverflowError:  # a number of more than 64 bits, which no client sends
                break
    return to_texts([value if type(value) is str else _text(value) for value in values])


def _text(value: PropertyValue) -> str | None:
    if value is None:
        return None
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


def _repeated(names: list[str], count: int) -> pa.StringArray:
    return to_texts(names).take(to_numbers(np.tile(np.arange(len(names)), count)))


def _interleaved(values: list[PropertyValue], width: int) -> pa.StringArray:
    """The first values of all names, then the second ones, and so on, as they came; turned into text name by name."""
    columns = pa.concat_arrays([to_written(values[index::width]) for index in range(width)])
    order = np.arange(len(values)).reshape(width, -1).T.ravel()
    return columns.take(to_numbers(order))


def _maps(offsets: np.ndarray[tuple[int], np.dtype[np.int32]], names: pa.Array, values: pa.Array) -> pa.MapArray:
    return pa.MapArray.from_arrays(to_numbers(offsets), names, values, type=PROPERTIES)
