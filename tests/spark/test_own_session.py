"""A session that a program made itself (D5): `register` gives it the formats, whichever Python is first in PATH."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import holdfast.blocking
from holdfast.errors import Refused
from holdfast.spark.java import find_java
from holdfast.spark.register import check_has_package
from tests.server_process import ServerProcess

APP = """
import sys

from pyspark.sql import SparkSession

import holdfast.spark

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
holdfast.spark.register(spark)
url, table = sys.argv[1:]
rows = spark.read.format("holdfast").options(url=url, destinations="own.jobs", format="text").load()
rows.write.format("holdfast_lake").mode("append").save(table)
print("READ", sorted(row["data"] for row in spark.read.format("holdfast_lake").load(table).collect()))
"""


@pytest.mark.spark
def test_a_program_whose_environment_is_not_activated_reads_and_writes_d5(server: ServerProcess, tmp_path: Path) -> None:
    try:
        java = find_java()
    except Refused as problem:
        pytest.skip(str(problem))
    with holdfast.blocking.connect(server.url) as client:
        client.create_queue("own.jobs")
        client.queue("own.jobs").send_many(["one", "two"])
    app = tmp_path / "app.py"
    app.write_text(APP)
    environment = {name: value for name, value in os.environ.items() if name not in ("PYSPARK_PYTHON", "VIRTUAL_ENV")}
    environment |= {"PATH": "/usr/bin:/bin", "JAVA_HOME": str(java)}

    command = [sys.executable, str(app), server.url, str(tmp_path / "table")]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    assert "READ ['one', 'two']" in ended.stdout, ended.stderr[-3_000:]


def test_a_python_without_the_package_is_refused_and_says_what_to_set_d5(tmp_path: Path) -> None:
    bare = tmp_path / "python3"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S -E "$@"\n')
    bare.chmod(0o755)

    with pytest.raises(
        Refused, match=rf"cannot import holdfast.spark \(ModuleNotFoundError.*Set PYSPARK_PYTHON={sys.executable}"
    ):
        check_has_package(str(bare))
    with pytest.raises(Refused, match="No such file"):
        check_has_package(str(tmp_path / "nowhere" / "python3"))
    check_has_package(sys.executable)
