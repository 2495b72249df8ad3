"""The Spark driver of the demo: archive, statistics and alerts in one session, and the audit at the end.

    python -m examples.pipeline_demo.driver URL FOLDER LOG

It is killed on the way, and goes on where it was when it is started again. A query that fails is started again by itself. When
its stdin is closed it takes what is left, holds everything against the receipts, and writes down what came of it (`outcome`).
"""

from __future__ import annotations

import os
import sys
import traceback
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from threading import Event, Thread
from typing import BinaryIO, NamedTuple

import msgspec
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from examples.pipeline_demo import places
from examples.pipeline_demo.outcome import Told, outcome_of
from holdfast.spark.pipelines import alerts, archive, statistics
from holdfast.spark.pipelines.running.progress import Progress, Reporter
from holdfast.spark.pipelines.running.registry import AlertsSettings, ArchiveSettings, StatisticsSettings
from holdfast.spark.pipelines.running.runner import Stop, watch
from holdfast.spark.pipelines.running.settings import StreamSettings
from holdfast.spark.session import QUICK, spark_session

MODULES = {"archive": archive, "statistics": statistics, "alerts": alerts}
# On a machine with much else to do, Spark often finds no Python within its ten seconds.
FAILURES_MAX = 30
EVERY_S = 0.5
LOOK_S = 0.1


class Teller(Reporter):
    """Writes every batch into the log that the demo reads."""

    def __init__(self, pipeline: str, log: BinaryIO) -> None:
        super().__init__(pipeline, as_json=True)
        self._name = pipeline
        self._log = log
        self.has_told = False

    def tell(self, progress: Progress) -> None:
        self.has_told = True
        told = Told(self._name, progress.at, progress.rows, progress.rows_per_second, progress.lag, progress.seconds)
        self._log.write(msgspec.json.encode(told) + b"\n")

    def finish(self, sentence: str, **facts: object) -> None:
        """Ignore it: the account at the end says more."""


def settings(url: str, folder: Path) -> dict[str, StreamSettings]:
    def read(name: str) -> dict[str, object]:
        said = {"url": url, "destinations": places.TOPICS, "subscription": name, "checkpoint": str(folder / "checkpoints" / name)}
        return {**said, "every": EVERY_S, "timeout": 120.0}

    counted = {"by": "accepted_at", "lateness": "3s"}
    made = {
        "archive": (ArchiveSettings, {"table": str(folder / places.ARCHIVE)}),
        "statistics": (StatisticsSettings, {"table": str(folder / places.STATISTICS), "window": "2s", **counted}),
        "alerts": (AlertsSettings, {"rules": str(places.RULES), "to": places.ALERTS, **counted}),
    }
    return {name: msgspec.convert({**read(name), **own}, kind) for name, (kind, own) in made.items()}


class Running(NamedTuple):
    teller: Teller
    query: StreamingQuery
    watched: Future[None]


class Driver:
    def __init__(self, spark: SparkSession, url: str, folder: Path, log: BinaryIO) -> None:
        self._spark = spark
        self._threads = ThreadPoolExecutor(len(MODULES))
        self._failures = 0
        self._url = url
        self._folder = folder
        self._log = log

    def follow(self, is_over: Event) -> None:
        """All pipelines, until they are told to end and have taken all there was. Those that fail are started again.

        One is started after the other has begun, as each starts many processes: a busy machine would start none of them in time.
        All are started from this thread, which has the session: Spark knows its formats in no other.
        """
        left, stop = settings(self._url, self._folder), Stop()
        running: dict[str, Running] = {}
        while left:
            if len(running) < len(left) and all(each.teller.has_told for each in running.values()):
                name = next(name for name in left if name not in running)
                running[name] = self._started(name, left[name], stop)
            elif is_over.is_set() and len(running) == len(left) and all(_took_all(each.query) for each in running.values()):
                stop.ask()
            wait([each.watched for each in running.values()], LOOK_S, FIRST_COMPLETED)
            for name in [name for name, each in running.items() if each.watched.done()]:
                if self._ended_well(name, running.pop(name).watched.exception()):
                    del left[name]

    def _ended_well(self, name: str, problem: BaseException | None) -> bool:
        if problem is not None:
            self._failures += 1
            print(f"{name} failed: {problem}", flush=True)
            if self._failures > FAILURES_MAX or not isinstance(problem, PySparkException):
                raise problem
        return problem is None

    def _started(self, name: str, settings: StreamSettings, stop: Stop) -> Running:
        teller = Teller(name, self._log)
        query = MODULES[name].start(self._spark, settings, teller)
        return Running(teller, query, self._threads.submit(watch, query, teller, stop))


def _took_all(query: StreamingQuery) -> bool:
    """Whether it has taken and confirmed everything: it asks for more only then."""
    try:
        query.processAllAvailable()
        return True
    except PySparkException:
        return False  # it failed, and will be started again


def end_with_stdin(is_over: Event) -> None:
    """The parent of this process closes its stdin to end it, or is gone."""
    sys.stdin.read()
    is_over.set()


def main(url: str, folder: Path, log: Path) -> None:
    spark = spark_session("local[2]", app_name="pipeline demo", **{**QUICK, "spark.sql.shuffle.partitions": "1"})
    spark.sparkContext.setLogLevel("OFF")
    with log.open("wb", buffering=0) as out:
        is_over = Event()
        Thread(target=end_with_stdin, args=(is_over,), daemon=True).start()
        Driver(spark, url, folder, out).follow(is_over)
        (folder / places.OUTCOME).write_bytes(msgspec.json.encode(outcome_of(spark, url, folder)))
    spark.stop()


if __name__ == "__main__":
    url, folder, log = sys.argv[1:]
    try:
        main(url, Path(folder), Path(log))
    except BaseException:
        traceback.print_exc()
        os._exit(1)  # and not when all queries have ended, which they never would
