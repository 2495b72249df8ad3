"""`register(spark)`: the formats of this package in a session.

    holdfast         events of a server, as a stream or as they lie; and rows as events     holdfast.spark.format
    holdfast_lake    rows into a lake table, exactly once; and out of it                    holdfast.spark.lake.format

On a local master, tasks and planners run in Python processes that Java starts. Spark takes `python3` of PATH for them, which is
not the Python of a program that was started as `.venv/bin/python app.py`: `register` sets the program's own, unless
PYSPARK_PYTHON names one. On a cluster, or through Spark Connect, the package travels with the data source, so that the nodes
need Spark's own Python packages and nothing else.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import shutil
import subprocess
import sys
from functools import cache
from typing import TYPE_CHECKING

from holdfast.errors import Refused

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSource

FORMATS = {
    "holdfast": ("holdfast.spark.format", "HoldfastSource"),
    "holdfast_lake": ("holdfast.spark.lake.format", "LakeSource"),
}
# Formats that Spark finds by itself (`pyspark_holdfast`), if the Python that it takes has the package.
FOUND_BY_SPARK = ("holdfast",) if importlib.util.find_spec("pyspark_holdfast") is not None else ()
# Spark's choice where nothing says which Python runs tasks and planners.
SPARK_DEFAULT_PYTHON = "python3"
# Another Python is asked once whether it has the package; a busy machine may take long to start it.
PYTHON_TIMEOUT_S = 60.0


def register(spark: SparkSession, *, ship: bool | None = None) -> None:
    """Make the formats known to a session.

    `ship`: whether the package travels to the nodes. By default not for a local session, which has it; otherwise yes.
    Refused when PYSPARK_PYTHON names a Python for a local session that lacks the package.
    """
    is_local = _is_local(spark)
    is_shipped = not is_local if ship is None else ship
    is_chosen = is_local and _choose_python(spark)
    if is_local and not is_shipped:
        check_has_package(spark.sparkContext.pythonExec)
    for source in _shipped() if is_shipped else _plain(() if is_chosen else FOUND_BY_SPARK):
        spark.dataSource.register(source)


def _plain(left_out: tuple[str, ...]) -> list[type[DataSource]]:
    return [getattr(importlib.import_module(module), name) for key, (module, name) in FORMATS.items() if key not in left_out]


def _shipped() -> list[type[DataSource]]:
    from holdfast.spark.shipping import archive_of, shipped

    archive = archive_of()
    return [shipped(format_name, module, name, archive) for format_name, (module, name) in FORMATS.items()]


def _is_local(spark: SparkSession) -> bool:
    """A session of Spark Connect does not say where its server runs what."""
    is_remote = type(spark).__module__.startswith("pyspark.sql.connect")
    return not is_remote and str(spark.conf.get("spark.master", "")).startswith("local")


def _choose_python(spark: SparkSession) -> bool:
    """Run tasks and planners of this session in the program's own Python; whether Spark would have taken another one."""
    python = spark.sparkContext.pythonExec
    if python != SPARK_DEFAULT_PYTHON or "PYSPARK_PYTHON" in os.environ or _is_own(python):
        return False
    spark.sparkContext.pythonExec = sys.executable
    return True


def _is_own(python: str) -> bool:
    """Whether this is the program's own Python, be it by another name in the same folder."""
    return os.path.dirname(shutil.which(python) or python) == os.path.dirname(sys.executable)


def check_has_package(python: str) -> None:
    """Refuse a Python that lacks the package, with what to set: Java would only say that the format is not found."""
    if not _is_own(python) and (problem := _problem_of(python)):
        raise Refused(
            f"the tasks of this session run in the Python {python!r}, which cannot import holdfast.spark ({problem}). Set "
            f"PYSPARK_PYTHON={sys.executable} before the session is made, or unset it, or install holdfast[spark] there"
        )


@cache
def _problem_of(python: str) -> str:
    """Why a Python cannot import the formats; "" if it can."""
    try:
        asked = subprocess.run(
            [python, "-c", "import holdfast.spark.format"],
            capture_output=True, text=True, timeout=PYTHON_TIMEOUT_S, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError) as problem:
        return str(problem)
    return (asked.stderr.strip().splitlines() or [f"it ended with {asked.returncode}"])[-1] if asked.returncode else ""
