"""Two queries over the same files: one into a lake table, one into a queue."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as columns
from pyspark.sql.streaming.query import StreamingQuery


def numbers(spark: SparkSession, folder: str, destination: Column) -> DataFrame:
    """One file a batch; each line is a number."""
    lines = spark.readStream.format("text").option("maxFilesPerTrigger", 1).load(f"{folder}/numbers")
    return lines.select(destination.alias("destination"), columns.col("value").cast("binary").alias("data"))


def into_lake(spark: SparkSession, folder: str) -> StreamingQuery:
    destination = columns.concat(columns.lit("plant/"), columns.col("value").cast("int") % 3)
    frame = numbers(spark, folder, destination).withColumn("accepted_at", columns.current_timestamp())
    writer = frame.writeStream.format("holdfast_lake").option("checkpointLocation", f"{folder}/lake-checkpoint")
    return writer.trigger(availableNow=True).start(f"{folder}/lake")


def into_queue(spark: SparkSession, folder: str, url: str, queue: str) -> StreamingQuery:
    writer = numbers(spark, folder, columns.lit(queue)).writeStream.format("holdfast").option("url", url).option("kind", "queue")
    return writer.option("checkpointLocation", f"{folder}/queue-checkpoint").trigger(availableNow=True).start()
