"""`register(spark)`: the formats of this package in a session.

    holdfast         events of a server, as a stream or as they lie; and rows as events     holdfast.spark.format
    holdfast_lake    rows into a lake table, exactly once; and out of it                    holdfast.spark.lake.format

Spark finds the first by itself where the package is installed (`pyspark_holdfast`). On a cluster, or through Spark Connect, the
package travels with the data source, so that the nodes need Spark's own Python packages and nothing else.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSource

FOUND_BY_ITSELF = ("pyspark_holdfast", "holdfast")
FORMATS = {
    "holdfast": ("holdfast.spark.format", "HoldfastSource"),
    "holdfast_lake": ("holdfast.spark.lake.format", "LakeSource"),
}


def register(spark: SparkSession, *, ship: bool | None = None) -> None:
    """Make the formats known to a session.

    `ship`: whether the package travels to the nodes. Where it is not said: not for a local session, which has it; otherwise yes.
    """
    is_shipped = not _is_local(spark) if ship is None else ship
    for source in _shipped() if is_shipped else _plain():
        spark.dataSource.register(source)


def _plain() -> list[type[DataSource]]:
    """Those that Spark does not find by itself (`pyspark_holdfast`)."""
    is_found = importlib.util.find_spec(FOUND_BY_ITSELF[0]) is not None
    wanted = [FORMATS[name] for name in FORMATS if not is_found or name != FOUND_BY_ITSELF[1]]
    return [getattr(importlib.import_module(module), name) for module, name in wanted]


def _shipped() -> list[type[DataSource]]:
    from holdfast.spark.shipping import archive_of, shipped

    archive = archive_of()
    return [shipped(format_name, module, name, archive) for format_name, (module, name) in FORMATS.items()]


def _is_local(spark: SparkSession) -> bool:
    """A session of Spark Connect does not say where its server runs what."""
    is_remote = type(spark).__module__.startswith("pyspark.sql.connect")
    return not is_remote and str(spark.conf.get("spark.master", "")).startswith("local")
