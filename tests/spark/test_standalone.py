"""On a standalone cluster by its URL (D5): a real master with two workers, on nodes that lack the package."""

from __future__ import annotations

import pytest

from holdfast.errors import Refused
from holdfast.spark.java import find_java
from tests.spark.cluster import WORKERS, bare_python, standalone
from tests.spark.round_trip import EVENTS, Left, round_trip

pytestmark = [pytest.mark.long, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Left:
    """Of one round trip, which takes most of a minute."""
    try:
        find_java()
    except Refused as problem:
        pytest.skip(str(problem))
    folder = tmp_path_factory.mktemp("standalone")
    python = bare_python(folder / "python")
    with standalone(folder, python) as url:
        return round_trip(url, python, folder)


def test_both_workers_are_used_and_neither_can_import_the_package_by_itself_d5(left: Left) -> None:
    used = {name for name in WORKERS for node in left.nodes if f"/{name}/" in node["folder"]}

    assert used == set(WORKERS)
    assert {node["outcome"] for node in left.nodes} == {"No module named 'holdfast'"}


def test_a_stream_on_a_cluster_goes_into_a_queue_and_into_a_table_once_each_and_is_confirmed_d5(left: Left) -> None:
    assert left.copied == list(range(EVENTS))
    assert left.streamed == list(range(EVENTS))
    assert left.waiting == {"copy": 0, "lake": 0}


def test_a_batch_read_on_a_cluster_goes_into_a_queue_and_into_a_table_once_each_d5(left: Left) -> None:
    assert left.copied_again == list(range(EVENTS))
    assert left.looked_at == list(range(EVENTS))
    assert left.table_rows == EVENTS
