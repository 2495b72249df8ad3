"""One Spark session for all tests of a process: starting one takes seconds. And a real server beside it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from holdfast.errors import Refused
from holdfast.spark.java import find_java
from holdfast.spark.session import QUICK, spark_session
from tests import effort
from tests.server_process import ServerProcess

# For a few hundred rows, Spark takes longer to generate and compile code for a query than to run it. A long run has both.
INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents and "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    try:
        find_java()
    except Refused as problem:
        pytest.skip(str(problem))
    session = spark_session("local[2]", app_name="tests", **QUICK, **({} if effort.IS_LONG else INTERPRETED))
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """For tests that leave it running; each uses destinations of its own."""
    with ServerProcess(tmp_path_factory.mktemp("server") / "data", "--journal-size", "256M") as running:
        yield running
