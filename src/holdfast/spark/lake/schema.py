"""Whether rows fit a lake table: the same columns of the same types, in any order, and the same partitions.

A table keeps the columns it was made with. Whether a column may be null is passed over: a frame that was joined or filtered says
it otherwise.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, Schema
from deltalake.exceptions import DeltaError

from holdfast.errors import BadSetting


def check_fit(folder: str, table: DeltaTable, schema: pa.Schema, partition_by: Sequence[str]) -> None:
    """BadSetting unless the table has these columns and these partitions."""
    there, here = _columns(table.schema()), _columns(delta_schema(schema))
    wrong = sorted(name for name in there.keys() | here.keys() if there.get(name) != here.get(name))
    if wrong:
        sentences = [f"{name}: {there.get(name, 'missing')} there, {here.get(name, 'missing')} here" for name in wrong]
        raise BadSetting(
            f"the table {folder} was made with other columns ({'; '.join(sentences)}); "
            "select the columns it has, or write to another folder",
            path=folder,
            columns=wrong,
        )
    parts = table.metadata().partition_columns
    if parts != list(partition_by):
        raise BadSetting(
            f"the table {folder} is partitioned by {', '.join(parts) or 'nothing'}, and not by "
            f"{', '.join(partition_by) or 'nothing'}; set the option partitionBy to what it has, or write to another folder",
            path=folder,
        )


def delta_schema(schema: pa.Schema) -> Schema:
    try:
        return Schema.from_arrow(schema)
    except (DeltaError, ValueError, TypeError) as problem:
        raise BadSetting(f"a Delta table cannot hold these columns ({problem}); cast or drop them before") from problem


def _columns(schema: Schema) -> dict[str, str]:
    fields = json.loads(schema.to_json())["fields"]
    return {field["name"]: json.dumps(_plain(field["type"]), sort_keys=True).strip('"') for field in fields}


def _plain(kind: Any) -> Any:
    if isinstance(kind, list):
        return [_plain(each) for each in kind]
    if not isinstance(kind, dict):
        return kind
    left_out = ("nullable", "containsNull", "valueContainsNull", "metadata")
    return {key: _plain(value) for key, value in kind.items() if key not in left_out}
