"""The first table: what is sent to topics goes into a lake table, once. Needs `holdfast[spark]`, Java, and a server."""

import sys

import holdfast.blocking
import holdfast.spark

url = sys.argv[1] if len(sys.argv) > 1 else "holdfast://127.0.0.1:7400"
with holdfast.blocking.connect(url) as client:
    client.ensure_subscription("orders.*", "lake")  # it holds events from now on, until they are in the table
    client.topic("orders.web").send_many([{"sku": number} for number in range(1000)])

spark = holdfast.spark.spark_session()  # or a session of your own, and holdfast.spark.register(spark)
events = spark.readStream.format("holdfast").options(url=url, destinations="orders.*", subscription="lake").load()
table = events.writeStream.format("holdfast_lake").option("checkpointLocation", "lake/checkpoint")
table.trigger(availableNow=True).start("lake/events").awaitTermination()
spark.read.format("holdfast_lake").load("lake/events").groupBy("destination").count().show()
