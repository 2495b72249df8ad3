"""A Spark session: local by default, on a cluster by its URL (D5), with this package's formats registered.

spark_session()                                       all cores of this machine
spark_session("local[2]", **QUICK)                    small and quickly started, for tests and short work
spark_session("spark://host:7077")                    a standalone cluster; yarn and k8s:// alike
spark_session(remote="sc://host:15002")               Spark Connect: no Java here
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from holdfast.errors import BadSetting
from holdfast.spark.java import find_java
from holdfast.spark.register import register

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.listener import StreamingQueryProgress

MASTER = "local[*]"
# What makes a small session start in half the time and stay small: no web page, no second compiler, one collector thread.
QUICK: dict[str, str] = {
    "spark.ui.enabled": "false",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}
# What every session has, unless it is told otherwise. Times are shown as they are kept.
_ALWAYS: dict[str, str] = {
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.showConsoleProgress": "false",
    "spark.python.worker.reuse": "true",
}


def spark_session(
    master: str | None = None, *, remote: str | None = None, app_name: str = "holdfast", **settings: Any
) -> SparkSession:
    """A session with the formats "holdfast" and "holdfast_lake". `settings` are Spark's own, by their names.

    Refused, with what to install, when there is no Java; Spark Connect (`remote`) needs none here.
    """
    if master is not None and remote is not None:
        raise BadSetting("give a master or a remote (Spark Connect), not both", setting="remote")
    from pyspark.sql import SparkSession

    if remote is None or remote.startswith("local"):
        os.environ["JAVA_HOME"] = str(find_java())
        os.environ["PYSPARK_PYTHON"] = _python(settings)
    builder = SparkSession.builder.appName(app_name)
    builder = builder.master(master or MASTER) if remote is None else builder.remote(remote)
    given = {**(_ALWAYS if remote is None else {}), **settings}
    spark = builder.config(map={name: str(value) for name, value in given.items()}).getOrCreate()
    register(spark)
    return spark


def _python(settings: Mapping[str, Any]) -> str:
    """Of tasks and planners. Spark heeds its own setting for it only where `spark-submit` was used."""
    return str(settings.get("spark.pyspark.python") or os.environ.get("PYSPARK_PYTHON") or sys.executable)


def lag_of(progress: StreamingQueryProgress) -> int:
    """How many events the subscriptions of a query hold that are not confirmed: sent, not yet safe where they go (D6)."""
    reported = [json.loads(source.latestOffset) for source in progress.sources if source.latestOffset]
    return sum(mark[2] for marks in reported if isinstance(marks, dict) for mark in marks.values() if _is_ours(mark))


def _is_ours(mark: object) -> bool:
    """As `offsets` describes what this source reports; other sources of the query report something else."""
    return isinstance(mark, list) and len(mark) == 3 and isinstance(mark[0], str) and isinstance(mark[2], int)
