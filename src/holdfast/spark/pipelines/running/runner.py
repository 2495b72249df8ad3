"""Running a pipeline: a Spark session, the source, the pipeline's function, a sink; watched until it ends or is told to.

    SIGINT, SIGTERM ─▶ the batch under way is finished ─▶ the query is stopped

A batch that is cut off all the same does no harm: it is done again, exactly once, when the pipeline is started again.
"""

from __future__ import annotations

import json
import logging
import os
import re
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # it has no types
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import functions as F

from holdfast import errors
from holdfast.errors import BadSetting, HoldfastError, Unavailable
from holdfast.spark.checkpoint import mend_checkpoint
from holdfast.spark.pipelines.running.progress import Reporter, progress_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from holdfast.spark.pipelines.running.settings import Settings, StreamSettings

log = logging.getLogger(__name__)

LOOK_SECONDS = 1
# How long a batch that is under way when the pipeline is told to stop may take; then it is cut off.
STOP_PATIENCE_SECONDS = 60.0
# Spark gives a Python process ten seconds to start, which cannot be set, and a busy machine may need more.
STARTS_MAX = 5
PAUSE_SECONDS = 5.0
SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
# Errors of a call to Spark: its own, those of the bridge to Java, and those of a socket whose other end, Java, has ended.
SPARK_ERRORS = (PySparkException, Py4JError, ConnectionError)
_OUR_ERROR = re.compile(r"holdfast\.errors\.(\w+): (.+)")
_PYTHON_ERROR = re.compile(r"^\s*((?:\w+\.)*\w+: .+)$", re.MULTILINE)


class Stop:
    """Whether the pipeline was told to stop."""

    is_asked = False

    def ask(self, *_: object) -> None:
        self.is_asked = True


def run(name: str, settings: Settings, *, as_json: bool = False) -> None:
    """Run a pipeline until it ends, or until SIGINT or SIGTERM; raises a HoldfastError when it fails."""
    module = import_module(f"holdfast.spark.pipelines.{name}")
    with translated(), session(settings) as spark, Reporter(name, as_json=as_json) as reporter, stopped_by_signals() as stop:
        for attempt in range(1, STARTS_MAX + 1):
            try:
                _run_once(module, spark, settings, reporter, stop)
                return
            except SPARK_ERRORS as problem:
                if stop.is_asked:  # whoever tells all processes to stop ends Java too, in the middle of whatever it does
                    log.debug("Spark ended before the query did", exc_info=problem)
                    reporter.finish("stopped when told to, and Spark with it: a batch that was cut off is done again")
                    return
                if not is_too_slow(problem) or attempt == STARTS_MAX:
                    raise
                log.warning("a Python process of Spark did not start within ten seconds; starting the pipeline again")
                time.sleep(PAUSE_SECONDS)


def _run_once(module: ModuleType, spark: SparkSession, settings: Settings, reporter: Reporter, stop: Stop) -> None:
    if hasattr(module, "run"):
        module.run(spark, settings, reporter, stop)
    else:
        watch(module.start(spark, settings, reporter), reporter, stop)


def is_too_slow(problem: Exception) -> bool:
    """Whether Spark gave up on a Python process that a busy machine had not started yet: nothing was done, so it can be again."""
    return "Python worker failed to connect back" in str(problem)


@contextmanager
def session(settings: Settings) -> Iterator[SparkSession]:
    """A Spark session, stopped at the end if it was made here."""
    from pyspark.sql import SparkSession

    from holdfast.spark.session import spark_session

    found = SparkSession.getActiveSession()
    master = None if settings.remote else settings.spark_master
    spark = found or spark_session(
        master, remote=settings.remote or None, app_name="holdfast pipeline", **spark_settings(settings)
    )
    try:
        yield spark
    finally:
        if found is None:
            with suppress(Py4JError, OSError):  # where Java has ended, there is nothing to stop
                spark.stop()


def spark_settings(settings: Settings) -> dict[str, str]:
    """Spark's settings. On one machine as many partitions as cores: each batch of a window has a task for every one."""
    is_local = not settings.remote and settings.spark_master.startswith("local")
    return {**({SHUFFLE_PARTITIONS: str(os.cpu_count() or 1)} if is_local else {}), **settings.spark}


def read_stream(spark: SparkSession, settings: StreamSettings) -> DataFrame:
    return spark.readStream.format("holdfast").options(**settings.source_options()).load()


def writer(frame: DataFrame, settings: StreamSettings) -> DataStreamWriter:
    """How often, and where it is written down how far it is."""
    if not settings.remote:
        mend_checkpoint(settings.checkpoint)
    stream = frame.writeStream.option("checkpointLocation", settings.checkpoint)
    if settings.once:
        return stream.trigger(availableNow=True)
    return stream.trigger(processingTime=f"{round(settings.every * 1000)} milliseconds")


def into_table(frame: DataFrame, settings: StreamSettings, table: str, day_of: str = "") -> StreamingQuery:
    """Into a lake table, by day and destination; rows that are not events are partitioned by the day of a column."""
    options = {"path": table}
    if day_of:
        frame = frame.withColumn("date", F.expr(f"date_from_unix_date(CAST(floor(unix_seconds({day_of}) / 86400) AS INT))"))
        options["partitionBy"] = "date"
    return writer(frame, settings).format("holdfast_lake").options(**options).outputMode("append").start()


def into_terminal(
    frame: DataFrame, settings: StreamSettings, keys: Sequence[str], mode: str, reporter: Reporter
) -> StreamingQuery:
    """Printed here, batch by batch; after a crash the last batch may be printed again."""

    def show(rows: DataFrame, _: int) -> None:
        found = [row.asDict(recursive=True) for row in rows.collect()]
        if found:
            reporter.show_rows(found, keys)

    return writer(frame, settings).outputMode(mode).foreachBatch(show).start()


def watch(query: StreamingQuery, reporter: Reporter, stop: Stop) -> None:
    """Say how the query goes until it ends; end it, after its batch, when told to."""
    seen: tuple[Any, ...] = ()
    while not query.awaitTermination(LOOK_SECONDS):
        seen = _tell_new(query, reporter, seen)
        if stop.is_asked:
            _end_after_batch(query)
            break
    _tell_new(query, reporter, seen)
    reporter.finish("stopped when told to" if stop.is_asked else "took all there was")


def _tell_new(query: StreamingQuery, reporter: Reporter, seen: tuple[Any, ...]) -> tuple[Any, ...]:
    """Every progress that came after the one that was seen last."""
    for progress in query.recentProgress:
        said = json.loads(progress.json) if hasattr(progress, "json") else dict(progress)
        mark = (said["batchId"], said["timestamp"])
        if mark > seen:
            seen = mark
            reporter.tell(progress_of(said))
    return seen


def _end_after_batch(query: StreamingQuery) -> None:
    """Wait until no batch is under way, or the next one has begun, then stop."""
    begun, patience = _batches(query), time.monotonic() + STOP_PATIENCE_SECONDS
    while _is_in_a_batch(query) and _batches(query) == begun and time.monotonic() < patience:
        if query.awaitTermination(LOOK_SECONDS):
            return
    query.stop()


def _is_in_a_batch(query: StreamingQuery) -> bool:
    status = query.status
    return bool(status["isTriggerActive"] and status["isDataAvailable"])


def _batches(query: StreamingQuery) -> Any:
    last = query.lastProgress
    return last and (last["batchId"], last["timestamp"])


@contextmanager
def stopped_by_signals() -> Iterator[Stop]:
    """SIGINT and SIGTERM ask for a stop, instead of ending the process; as they were afterwards."""
    stop = Stop()
    # Only the main thread hears signals; the program that started another one must end it.
    heard = (signal.SIGINT, signal.SIGTERM) if threading.current_thread() is threading.main_thread() else ()
    before = {number: signal.signal(number, stop.ask) for number in heard}
    try:
        yield stop
    finally:
        for number, action in before.items():
            signal.signal(number, action)


@contextmanager
def translated() -> Iterator[None]:
    """Translate an error of Spark: into the error of ours that it carries, a statement it does not understand, or a failure."""
    try:
        yield
    except PySparkException as problem:
        raise as_holdfast_error(problem) from problem
    except (Py4JError, ConnectionError) as problem:
        raise Unavailable(
            f"the Java process of Spark failed or ended: {problem}; start the pipeline again, it goes on"
        ) from problem


def as_holdfast_error(problem: PySparkException) -> HoldfastError:
    text = str(problem)
    ours = _OUR_ERROR.findall(text)
    kind = getattr(errors, ours[-1][0], None) if ours else None
    if isinstance(kind, type) and issubclass(kind, HoldfastError):
        return kind(ours[-1][1].strip())
    python = _PYTHON_ERROR.findall(text.partition("Traceback (most recent call last)")[2])
    said = python[-1].strip() if python else next(iter(text.strip().splitlines()), type(problem).__name__)
    if isinstance(problem, AnalysisException) and not python:
        return BadSetting(f"Spark does not understand what it is asked for: {said}")
    return Unavailable(f"Spark failed: {said}; started again, the pipeline goes on where it was")
