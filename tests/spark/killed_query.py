"""A program that a test kills: one query, from topics into a lake table or into a queue.

    python -m tests.spark.killed_query lake|queue URL FOLDER on|once [EVENTS [SYNC]]

With `on` it runs until it is killed, and is started again when it fails, as a supervisor would do; with `once` it takes all there
is, and ends. A batch has EVENTS at most; SYNC is the source's option of that name.
"""

from __future__ import annotations

import sys
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as columns
from pyspark.sql.streaming.query import StreamingQuery

from holdfast.spark.checkpoint import mend_checkpoint
from holdfast.spark.session import QUICK, spark_session

TOPICS = "plant.*"
SUBSCRIPTION = "archive"
QUEUE = "archived"
# A task is tried again by Spark itself, as on a cluster, where that is the default.
MASTER = "local[2,4]"


def archived(spark: SparkSession, target: str, url: str, folder: str, source: dict[str, str], **trigger: Any) -> StreamingQuery:
    """The query, running."""
    read = spark.readStream.format("holdfast").option("url", url).option("minPartitions", 2).options(**source)
    events = read.option("destinations", TOPICS).option("subscription", SUBSCRIPTION).load()
    if target == "lake":
        writer = events.writeStream.format("holdfast_lake").option("path", f"{folder}/lake")
    else:
        bodies = events.select(columns.lit(QUEUE).alias("destination"), "data")
        writer = bodies.writeStream.format("holdfast").option("url", url).option("kind", "queue")
    writer = writer.option("checkpointLocation", f"{folder}/checkpoint")
    return (writer.trigger(**trigger) if trigger else writer).start()


def main(target: str, url: str, folder: str, mode: str, events: str = "2000", sync: str = "local") -> None:
    source = {"maxEventsPerTrigger": events, "sync": sync}
    mend_checkpoint(f"{folder}/checkpoint")
    spark = spark_session(MASTER, app_name="killed", **QUICK)
    spark.sparkContext.setLogLevel("OFF")
    if mode == "once":
        archived(spark, target, url, folder, source, availableNow=True).awaitTermination()
        return
    while True:
        try:
            archived(spark, target, url, folder, source).awaitTermination()
        except PySparkException as problem:
            print(f"failed, started again: {problem}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
