"""D1, D3: SIGKILL of driver, JVM and Python workers at random moments. Table and queue then hold what was sent, each once."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from holdfast import blocking
from holdfast.spark.java import find_java
from tests.server_process import ServerProcess
from tests.spark.killing import check_each_once
from tests.spark.lake_rows import numbers_in
from tests.spark.lives import Life

KILLS = 5
FILES = 36
LINES = 50
QUEUE = "numbers"
# Batches of both queries that a life may finish before it ends: few enough that there is something left for the last.
BATCHES_MAX = 8
MOMENT_S_MAX = 0.5


class BothQueries(Life):
    """One run of `sinks_child`."""

    def __init__(self, folder: Path, url: str) -> None:
        super().__init__(QUEUE, url, folder, folder / "child.log", program="tests.spark.sinks_child")
        self._folder = folder

    def batches(self) -> int:
        """How many batches Spark has committed in all lives, of both queries."""
        return sum(len(list(self._folder.glob(f"{name}-checkpoint/commits/[0-9]*"))) for name in ("lake", "queue"))


def give_files(folder: Path) -> None:
    folder.mkdir()
    for file in range(FILES):
        text = "".join(f"{number}\n" for number in range(file * LINES, (file + 1) * LINES))
        (folder / f"{file:03}.txt").write_text(text)


@pytest.mark.spark
@pytest.mark.faults
@pytest.mark.timeout(900)
def test_driver_and_jvm_killed_at_random_leave_every_row_in_table_and_queue_once(tmp_path: Path) -> None:
    find_java()
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    dice = random.Random(seed)
    give_files(tmp_path / "numbers")

    with ServerProcess(tmp_path / "data", "--journal-size", "128M") as server:
        for _ in range(KILLS):
            with BothQueries(tmp_path, server.url) as life:
                life.wait_for(dice.randint(1, BATCHES_MAX))
                time.sleep(dice.random() * MOMENT_S_MAX)  # the moment is part of what is tried
                print(f"{life.batches()} batches: kill", flush=True)
        with BothQueries(tmp_path, server.url) as last:
            last.end()
        with blocking.connect(server.url) as client, client.queue(QUEUE).browse() as events:
            check_each_once((int(event.data) for event in events), range(FILES * LINES))

    check_each_once(numbers_in(tmp_path / "lake"), range(FILES * LINES))
