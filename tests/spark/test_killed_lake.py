"""D1: SIGKILL of driver and JVM, of Python workers, of the server, under load. The table holds what was receipted, each once."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.spark.java import find_java
from tests.server_process import ServerProcess
from tests.spark.killing import SERVER, Killing, check_each_once, is_confirmed_to_the_head
from tests.spark.lake_rows import numbers_in


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.faults
@pytest.mark.timeout(1200)
def test_whoever_is_killed_under_load_the_table_holds_what_was_receipted_each_once_and_all_of_it_is_confirmed(
    tmp_path: Path,
) -> None:
    find_java()
    with ServerProcess(tmp_path / "data", *SERVER) as server:
        receipted = Killing("lake", server, tmp_path).run()

        check_each_once(numbers_in(tmp_path / "lake"), receipted)
        assert is_confirmed_to_the_head(server)
