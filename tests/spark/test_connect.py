"""Through Spark Connect by its URL (D5): a real server of its own, which lacks the package, as do the tasks it runs."""

from __future__ import annotations

import pytest

from holdfast.errors import Refused
from holdfast.spark.java import find_java
from tests.spark.cluster import bare_python, connect_server
from tests.spark.round_trip import EVENTS, Left, round_trip

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Left:
    """Of one round trip, which takes half a minute."""
    try:
        find_java()
    except Refused as problem:
        pytest.skip(str(problem))
    folder = tmp_path_factory.mktemp("connect")
    python = bare_python(folder / "python")
    with connect_server(folder, python) as url:
        return round_trip(url, python, folder)


def test_the_server_cannot_import_the_package_by_itself_d5(left: Left) -> None:
    assert {node["outcome"] for node in left.nodes} == {"No module named 'holdfast'"}


def test_a_stream_through_connect_goes_into_a_queue_and_into_a_table_once_each_and_is_confirmed_d5(left: Left) -> None:
    assert left.copied == list(range(EVENTS))
    assert left.streamed == list(range(EVENTS))
    assert left.waiting == {"copy": 0, "lake": 0}


def test_a_batch_read_through_connect_goes_into_a_queue_and_into_a_table_once_each_d5(left: Left) -> None:
    assert left.copied_again == list(range(EVENTS))
    assert left.looked_at == list(range(EVENTS))
    assert left.table_rows == EVENTS
