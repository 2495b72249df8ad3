"""Arrays of Arrow, made of their buffers.

`pa.array` imports pandas the first time it is used: that takes a worker of Spark a second, and its many objects are then searched
for garbage after every task. What every record batch needs is made without it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa


def to_numbers(values: npt.NDArray[Any]) -> pa.Array:
    """Whole numbers as this machine writes them, none of them missing."""
    return pa.Array.from_buffers(
        pa.from_numpy_dtype(values.dtype), len(values), [None, pa.py_buffer(np.ascontiguousarray(values))]
    )


def to_texts(values: Sequence[str | None]) -> pa.StringArray:
    encoded = [b"" if value is None else value.encode() for value in values]
    offsets = np.zeros(len(encoded) + 1, np.int32)
    np.cumsum([len(each) for each in encoded], out=offsets[1:])
    is_known = np.array([value is not None for value in values], np.bool_)
    return pa.StringArray.from_buffers(
        len(encoded), pa.py_buffer(offsets), pa.py_buffer(b"".join(encoded)), to_validity(is_known), int((~is_known).sum())
    )


def repeated_text(text: str | None, rows: int) -> pa.StringArray:
    if text is None:
        return pa.nulls(rows, pa.string())
    encoded = text.encode()
    offsets = np.arange(rows + 1, dtype=np.int32) * len(encoded)
    return pa.StringArray.from_buffers(rows, pa.py_buffer(offsets), pa.py_buffer(encoded * rows))


def to_validity(is_known: npt.NDArray[np.bool_]) -> pa.Buffer | None:
    """Which values there are, as Arrow keeps it: none where there are all."""
    return None if is_known.all() else pa.py_buffer(np.packbits(is_known, bitorder="little"))
