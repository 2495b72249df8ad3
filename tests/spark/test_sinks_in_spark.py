"""D1, D3: both sinks inside Spark: batches that Spark runs again, writes that are not streams, and refusals in its own errors."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as columns

from holdfast import blocking
from holdfast.event.event import PropertyValue
from tests.server_process import ServerProcess
from tests.spark import both_sinks
from tests.spark.lake_rows import numbers_in

LINES = 20


def give_files(folder: Path, *files: int) -> None:
    (folder / "numbers").mkdir(exist_ok=True)
    for file in files:
        text = "".join(f"{number}\n" for number in range(file * LINES, (file + 1) * LINES))
        (folder / "numbers" / f"{file:03}.txt").write_text(text)


def run_both(spark: SparkSession, folder: Path, url: str, queue: str) -> None:
    for query in (both_sinks.into_lake(spark, str(folder)), both_sinks.into_queue(spark, str(folder), url, queue)):
        query.awaitTermination()


def forget_last_commit(checkpoint: Path) -> None:
    """As a driver leaves it that was killed after the sink's commit and before Spark's own."""
    last = max((path for path in (checkpoint / "commits").iterdir() if path.name.isdigit()), key=lambda path: int(path.name))
    last.unlink()
    last.with_name(f".{last.name}.crc").unlink(missing_ok=True)


def test_a_batch_that_spark_runs_again_is_in_table_and_queue_once(
    spark: SparkSession, server: ServerProcess, tmp_path: Path
) -> None:
    give_files(tmp_path, 0, 1)
    run_both(spark, tmp_path, server.url, "sinks.again")
    for name in ("lake", "queue"):
        forget_last_commit(tmp_path / f"{name}-checkpoint")

    give_files(tmp_path, 2)
    run_both(spark, tmp_path, server.url, "sinks.again")

    with blocking.connect(server.url) as client, client.queue("sinks.again").browse() as events:
        assert sorted(int(event.data) for event in events) == list(range(3 * LINES))
    assert numbers_in(tmp_path / "lake") == list(range(3 * LINES))
    frame = spark.read.format("holdfast_lake").load(str(tmp_path / "lake"))
    assert dict(frame.groupBy("destination").count().collect()) == {"plant/0": 20, "plant/1": 20, "plant/2": 20}
    assert frame.schema.simpleString() == "struct<destination:string,data:binary,accepted_at:timestamp,date:date>"


def test_writes_that_are_not_streams_append_replace_and_are_once_under_a_number(
    spark: SparkSession, server: ServerProcess, tmp_path: Path
) -> None:
    frame = spark.range(10).select(
        columns.lit("sinks.batch").alias("destination"), columns.col("id").cast("string").cast("binary").alias("data")
    )
    lake = str(tmp_path / "lake")

    rows = frame.withColumn("accepted_at", columns.current_timestamp())
    rows.write.format("holdfast_lake").mode("append").save(lake)
    rows.limit(3).write.format("holdfast_lake").mode("overwrite").save(lake)
    for _ in range(2):
        rows.limit(2).write.format("holdfast_lake").option("scope", "nightly").option("number", 1).mode("append").save(lake)
        sending = frame.write.format("holdfast").option("url", server.url).option("kind", "queue")
        sending.option("scope", "nightly").option("number", 1).mode("append").save()

    assert len(numbers_in(tmp_path / "lake")) == 5
    with blocking.connect(server.url) as client, client.queue("sinks.batch").browse() as events:
        assert sorted(int(event.data) for event in events) == list(range(10))


def test_what_is_refused_is_said_in_sparks_own_error(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.range(3)

    with pytest.raises(PySparkException, match="the frame has no column 'destination'"):
        frame.write.format("holdfast_lake").mode("append").save(str(tmp_path / "lake"))
    with pytest.raises(PySparkException, match="is not a Delta table"):
        spark.read.format("holdfast_lake").load(str(tmp_path / "nothing")).count()
    with pytest.raises(PySparkException, match="cannot be overwritten"):
        frame.selectExpr("'a' AS destination", "'x' AS data").write.format("holdfast").option(
            "url", "holdfast://127.0.0.1:1"
        ).mode("overwrite").save()


def test_properties_keep_their_types_from_a_queue_through_spark_into_another(spark: SparkSession, server: ServerProcess) -> None:
    given: dict[str, PropertyValue] = {"amount": 12.0, "pieces": 12, "vip": True, "note": "12", "left_out": None}
    with blocking.connect(server.url) as client:
        client.create_queue("typed.from")
        client.create_queue("typed.to")
        client.queue("typed.from").send("order", properties=given)

    options = {"url": server.url, "destinations": "typed.from", "properties": "json", "format": "text"}
    frame = spark.read.format("holdfast").options(**options).load()
    found = frame.select(
        columns.from_json("properties", "amount DOUBLE, vip BOOLEAN").alias("typed"),
        columns.expr("schema_of_variant(parse_json(properties))").alias("variant"),
    ).first()
    frame.drop("destination").write.format("holdfast").options(url=server.url, destination="typed.to", kind="queue").mode(
        "append"
    ).save()

    assert found is not None and found["typed"].asDict() == {"amount": 12.0, "vip": True}
    assert "pieces: BIGINT" in found["variant"] and "vip: BOOLEAN" in found["variant"] and "note: STRING" in found["variant"]
    with blocking.connect(server.url) as client, client.queue("typed.to").receive() as incoming:
        properties = dict(incoming.next(timeout=60).properties or {})
    assert properties == given
    assert {name: type(value) for name, value in properties.items()} == {name: type(value) for name, value in given.items()}
