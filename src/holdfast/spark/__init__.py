"""Spark: events into tables, statistics and alerts, and rows into events, each exactly once.

    spark = holdfast.spark.spark_session()             # or your own session, and holdfast.spark.register(spark)
    spark.readStream.format("holdfast").option("url", "holdfast://host").option("destinations", "alerts.*")…

Needs `holdfast[spark]` and Java. Nothing else of Holdfast imports this, and importing this loads nothing of Spark yet.
"""

from holdfast.spark.register import register
from holdfast.spark.session import lag_of, spark_session

__all__ = ["lag_of", "register", "spark_session"]
