"""D1, D3: SIGKILL of driver and JVM, of Python workers, of the server, under load. What Spark reads from topics and sends on to a
queue is there once."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast import blocking
from holdfast.spark.java import find_java
from tests.server_process import ServerProcess
from tests.spark.killed_query import QUEUE
from tests.spark.killing import SERVER, Killing, check_each_once, is_confirmed_to_the_head


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.faults
@pytest.mark.timeout(1200)
def test_whoever_is_killed_under_load_the_destination_holds_what_was_receipted_each_once_and_all_of_it_is_confirmed(
    tmp_path: Path,
) -> None:
    find_java()
    with ServerProcess(tmp_path / "data", *SERVER) as server:
        receipted = Killing("queue", server, tmp_path).run()

        with blocking.connect(server.url) as client, client.queue(QUEUE).browse() as events:
            check_each_once((int(event.data) for event in events), receipted)
        assert is_confirmed_to_the_head(server)
