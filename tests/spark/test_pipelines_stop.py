"""A pipeline that goes on and on ends in good order when it is told to (D4, E4), and shows how it goes until then (D6)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from deltalake import DeltaTable

from holdfast import blocking
from tests import effort
from tests.server_process import ServerProcess
from tests.spark.cluster import SMALL
from tests.spark.streams import send, waiting

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.mark.parametrize("told_by", effort.cases([signal.SIGTERM], long=[signal.SIGINT]))
def test_a_signal_to_all_of_it_ends_the_query_with_exit_code_0_and_nothing_is_twice_or_missing(
    server: ServerProcess, tmp_path: Path, told_by: signal.Signals
) -> None:
    """Ctrl-C goes to every process of the terminal, and a service manager's SIGTERM too: command, Java and Python workers alike.
    Java ends at once by SIGTERM, in the middle of a batch, which is done again when the pipeline is started again.
    """
    table, topic = tmp_path / "lake", f"endless-{told_by.name.lower()}"
    with blocking.connect(server.url) as client:
        client.create_topic(topic)
        client.create_subscription(topic, "lake")
    send(server, topic, range(1_000))
    command = [sys.executable, "-m", "holdfast", "pipeline", "archive", "--url", server.url, "--destinations", topic]
    options = ["--subscription", "lake", "--table", str(table), "--checkpoint", str(tmp_path / "c"), "--json"]

    with subprocess.Popen(
        [*command, *options, "--spark-master", "local[2]"],
        env={**os.environ, "JDK_JAVA_OPTIONS": SMALL},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        told = [json.loads(line) for line in iter_until(process, 1_000)]
        send(server, topic, range(1_000, 1_500))
        os.killpg(process.pid, told_by)
        rest, _ = process.communicate(timeout=200)

    assert process.returncode == 0
    told += [json.loads(line) for line in rest.splitlines()]
    assert told[-1]["finished"].startswith("stopped when told to")
    ids = DeltaTable(str(table)).to_pyarrow_table(columns=["id"]).column("id").to_pylist()
    assert len(ids) == len(set(ids)) >= 1_000
    assert waiting(server, topic, "lake") in (0, 500, 1_500)


def iter_until(process: subprocess.Popen[str], rows: int) -> list[str]:
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if json.loads(line)["total_rows"] >= rows:
            return lines
    raise AssertionError(f"the pipeline ended by itself: {lines}")
